-- 0001 core: plans, sessions, instances, journal, intents, leases, wakes, signals.
-- before: no ninelives code runs. after: ninelives 0.1 and newer.
-- locks: new tables only.

create table ninelives.flow_plan (
    plan_id       integer generated always as identity primary key,
    flow_id       text not null,
    flow_version  text not null,
    fingerprint   text not null,
    plan          json not null,
    registered_at timestamptz not null default clock_timestamp(),
    unique (flow_id, flow_version)
);

-- One row for each process incarnation; never reused, never revived.
create table ninelives.node_session (
    session_id   bigint primary key,
    node_name    text not null,
    server_start timestamptz not null,
    opened_at    timestamptz not null,
    expires_at   timestamptz not null,
    dead_at      timestamptz
) with (fillfactor = 50);
-- What dead sessions held is looked for at every claim; a crash loop leaves thousands of them.
create index node_session_dead on ninelives.node_session (session_id) where dead_at is not null;

create table ninelives.flow_instance (
    instance_id        uuid primary key,
    plan_id            integer not null,
    fence              bigint not null,
    next_sequence      bigint not null,
    snapshot_sequence  bigint not null,
    version            bigint not null,
    claims             integer not null,
    parent_step_id     integer,
    paused             boolean not null,
    state              text not null check (state in (
        'Pending', 'Running', 'Suspended', 'Compensating',
        'Completed', 'Failed', 'TimedOut', 'CompensationFailed', 'Terminated')),
    created_at         timestamptz not null,
    updated_at         timestamptz not null,
    finished_at        timestamptz,
    deadline_at        timestamptz,
    flow_id            text not null,
    flow_version       text not null,
    tenant_id          text,
    correlation_id     text,
    parent_instance_id uuid,
    parent_scope       text,
    resume_from_step   integer,
    input              json not null,
    frontier           json,
    result             json
) with (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 1
);

create table ninelives.flow_step (
    instance_id        uuid not null,
    sequence           bigint not null,
    token              bigint not null,
    duration_ms        bigint not null,
    committed_at       timestamptz not null,
    retry_at           timestamptz,
    step_id            integer not null,
    attempt            integer not null,
    scope              text not null,
    capability_id      text not null,
    capability_version text not null,
    outcome            text not null check (outcome in ('Success', 'Failure', 'Compensated')),
    result             json,
    nondeterministic   json,
    primary key (instance_id, scope, step_id, attempt)
) with (autovacuum_vacuum_insert_scale_factor = 0.5);
create unique index flow_step_sequence on ninelives.flow_step (instance_id, sequence);

-- An at_most_once effect may begin only as the answer to its own insert.
create table ninelives.flow_intent (
    instance_id     uuid not null,
    scope           text not null,
    step_id         integer not null,
    attempt         integer not null,
    token           bigint not null,
    idempotency_key text not null,
    created_at      timestamptz not null,
    doubted_token   bigint,
    outcome         text check (outcome in ('committed', 'done', 'voided')),
    settled_at      timestamptz,
    primary key (instance_id, scope, step_id, attempt)
);

-- Never deleted and never lowered: the token outlives release, finish and purge.
create table ninelives.flow_lease (
    instance_id uuid primary key,
    token       bigint not null,
    holder      bigint
) with (
    fillfactor = 45, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 1
);

-- Exactly one row while the instance is not terminal.
create table ninelives.flow_wake (
    instance_id uuid primary key,
    plan_id     integer not null,
    seq         bigint not null,
    seen_seq    bigint not null,
    run_at      timestamptz,
    holder      bigint
) with (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);
create index flow_wake_due on ninelives.flow_wake (plan_id, run_at) where run_at is not null;
create index flow_wake_held on ninelives.flow_wake (holder) where holder is not null;

create table ninelives.flow_signal (
    signal_seq       bigint generated always as identity primary key,
    instance_id      uuid not null,
    signal_id        text not null,
    name             text not null,
    payload          json not null,
    received_at      timestamptz not null,
    consumed_scope   text,
    consumed_step_id integer,
    consumed_token   bigint,
    unique (instance_id, signal_id)
);

-- Waits for an advisory lock at most lock_timeout; false then, and no error, which the server would log each time.
create function ninelives.await_lock(key bigint) returns boolean language plpgsql as $$
begin
    perform pg_advisory_xact_lock(key);
    return true;
exception when lock_not_available then
    return false;
end $$;

-- Lets a statement refuse its whole transaction; the caller repeats the batch in its careful form.
create function ninelives.refuse(reason text) returns boolean language plpgsql as $$
begin
    raise exception 'ninelives: %', reason using errcode = 'NL001';
end $$;
