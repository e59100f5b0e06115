-- name: start_guard
-- purpose: keep an early signal and the start of the instance that it is for apart
-- locks: the schema's start lock, shared (advisory, first in the lock order)
-- guard: an early signal takes the same lock exclusively
select pg_advisory_xact_lock_shared($1, 0);

-- name: start
-- purpose: insert instances with their input and their wake, due at once
-- locks: none is waited for but another start of the same id; rows in id order
-- guard: ON CONFLICT DO NOTHING; what existed is told apart by start_existing; of one id the first row of the batch wins
with b as (
    select * from unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::json[], $6::bigint[]) with ordinality
        as b(instance_id, plan_id, flow_id, flow_version, input, deadline_ms, ord)
), i as (
    insert into ninelives.flow_instance (instance_id, plan_id, fence, next_sequence, snapshot_sequence, version,
        claims, paused, state, created_at, updated_at, deadline_at, flow_id, flow_version, input)
    select b.instance_id, b.plan_id, coalesce(l.token, 0), 1, 0, 0, 0, false, 'Pending', now(), now(),
           case when b.deadline_ms > 0 then clock_timestamp() + b.deadline_ms * interval '1 ms' end,
           b.flow_id, b.flow_version, b.input
      from b left join ninelives.flow_lease l on l.instance_id = b.instance_id
     order by b.instance_id, b.ord
    on conflict do nothing
    returning instance_id, plan_id
), w as (
    insert into ninelives.flow_wake (instance_id, plan_id, seq, seen_seq, run_at)
    select instance_id, plan_id, 1, 0, now() from i order by instance_id
    on conflict do nothing
)
select array_agg(instance_id) from i;

-- name: start_held
-- purpose: start instances and hold their leases at once: start folded with claim, for a node that runs what it starts
-- locks: as start; then the lease row, which only a holder of the instance touches
-- guard: ON CONFLICT DO NOTHING; token = lease.token + 1 and fence = token; nothing is held for a dead session
with b as (
    select * from unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::json[], $6::bigint[]) with ordinality
        as b(instance_id, plan_id, flow_id, flow_version, input, deadline_ms, ord)
     where exists (select from ninelives.node_session s
                    where s.session_id = $7 and s.dead_at is null and s.expires_at > clock_timestamp())
), i as (
    insert into ninelives.flow_instance (instance_id, plan_id, fence, next_sequence, snapshot_sequence, version,
        claims, paused, state, created_at, updated_at, deadline_at, flow_id, flow_version, input)
    select b.instance_id, b.plan_id, coalesce(l.token, 0) + 1, 1, 0, 0, 1, false, 'Running', now(), now(),
           case when b.deadline_ms > 0 then clock_timestamp() + b.deadline_ms * interval '1 ms' end,
           b.flow_id, b.flow_version, b.input
      from b left join ninelives.flow_lease l on l.instance_id = b.instance_id
     order by b.instance_id, b.ord
    on conflict do nothing
    returning instance_id, plan_id, fence
), w as (
    insert into ninelives.flow_wake (instance_id, plan_id, seq, seen_seq, holder)
    select instance_id, plan_id, 1, 0, $7 from i order by instance_id
    on conflict do nothing
), l as (
    insert into ninelives.flow_lease as l (instance_id, token, holder)
    select instance_id, fence, $7 from i order by instance_id
    on conflict (instance_id) do update set token = excluded.token, holder = excluded.holder
     where l.token < excluded.token
)
select array_agg(instance_id), array_agg(fence) from i;

-- name: start_existing
-- purpose: tell a repeated start from a conflicting one, after the insert has waited for whoever won
-- locks: none
-- guard: inputs are compared as values, so another order of keys is the same input
select b.instance_id, i.flow_id = b.flow_id and i.input::jsonb = b.input::jsonb as same, i.state
  from unnest($1::uuid[], $2::text[], $3::json[]) as b(instance_id, flow_id, input)
  join ninelives.flow_instance i on i.instance_id = b.instance_id;

-- name: start_notify
-- purpose: tell listening nodes that something is due; latency only, a node also polls
-- locks: the notification queue, at commit
-- guard: none
select pg_notify($1, '');
