-- name: commit_wakes
-- purpose: lock the wakes of the instances that a batch finishes, before any instance
-- locks: wakes in id order
-- guard: the lock order (PROTOCOL R1)
select count(*) from (
    select 1 from ninelives.flow_wake w where w.instance_id = any ($1::uuid[])
     order by w.instance_id for update) locked;

-- name: commit_lock
-- purpose: lock the instances of a batch, so that the statement behind it sees them as they are
-- locks: instances in id order
-- guard: lock first, read in a later statement (PROTOCOL R2)
select count(*) from (
    select 1 from ninelives.flow_instance i where i.instance_id = any ($1::uuid[])
     order by i.instance_id for no key update) locked;

-- name: commit_rows
-- purpose: one step row for each of several instances, some of which end with it; the fast form
-- locks: taken by commit_wakes and commit_lock
-- guard: fence = token, not finished, not paused where it would finish; a step key that exists aborts the batch (NL001)
with b as (
    select * from unnest($1::uuid[], $2::bigint[], $3::text[], $4::int[], $5::int[], $6::text[], $7::text[], $8::text[],
            $9::json[], $10::json[], $11::bigint[], $12::bigint[], $13::json[], $14::text[], $15::json[])
        with ordinality
        as b(instance_id, token, scope, step_id, attempt, capability_id, capability_version, outcome,
             result, nondeterministic, duration_ms, retry_ms, frontier, finish, finish_result, ord)
), u as (
    update ninelives.flow_instance i
       set next_sequence = i.next_sequence + 1, version = i.version + 1, claims = 0, updated_at = now(),
           frontier = coalesce(b.frontier, i.frontier),
           snapshot_sequence = case when b.frontier is null then i.snapshot_sequence else i.next_sequence end,
           state = coalesce(b.finish, i.state), result = coalesce(b.finish_result, i.result),
           finished_at = case when b.finish is null then null else now() end
      from b
     where i.instance_id = b.instance_id and i.fence = b.token and i.finished_at is null
       and not (i.paused and b.finish is not null)
    returning b.*, i.next_sequence - 1 as sequence, i.paused
), s as (
    insert into ninelives.flow_step (instance_id, sequence, token, duration_ms, committed_at, retry_at, step_id, attempt,
        scope, capability_id, capability_version, outcome, result, nondeterministic)
    select u.instance_id, u.sequence, u.token, u.duration_ms, now(),
           case when u.retry_ms >= 0 then clock_timestamp() + u.retry_ms * interval '1 ms' end,
           u.step_id, u.attempt, u.scope, u.capability_id, u.capability_version, u.outcome, u.result, u.nondeterministic
      from u
    on conflict do nothing
    returning 1
), w as (
    delete from ninelives.flow_wake w using u where u.finish is not null and w.instance_id = u.instance_id
    returning 1
), l as (
    update ninelives.flow_lease l set holder = null
      from u where u.finish is not null and l.instance_id = u.instance_id and l.token = u.token
)
select (select count(*) from u) as committed,
       (select array_agg(u.ord::int) from u) as ords,
       (select array_agg(u.ord::int) from u where u.paused) as paused_ords,
       case when (select count(*) from s) <> (select count(*) from u)
              or (select count(*) from w) <> (select count(*) from u where u.finish is not null)
            then ninelives.refuse('a step key or a wake is not as the batch expects') end as refused;

-- name: commit_classify
-- purpose: why rows of a batch were not committed; runs in the batch's transaction, under its locks
-- locks: taken by commit_lock
-- guard: a row that exists under its own token is a success (PROTOCOL R4), whatever happened since
select b.ord::int,
       case when i.instance_id is null then 'unknown'
            when s.instance_id is not null and s.token = b.token then 'committed'
            when i.fence <> b.token then 'fenced'
            when i.finished_at is not null then 'terminal'
            when s.instance_id is not null then 'duplicate'
            when i.paused and b.finishes then 'paused'
            else 'absorbed' end,
       i.paused
  from unnest($1::uuid[], $2::bigint[], $3::text[], $4::int[], $5::int[], $6::bool[]) with ordinality
       as b(instance_id, token, scope, step_id, attempt, finishes, ord)
  left join ninelives.flow_instance i on i.instance_id = b.instance_id
  left join ninelives.flow_step s on s.instance_id = b.instance_id and s.scope = b.scope
       and s.step_id = b.step_id and s.attempt = b.attempt;

-- name: commit_careful
-- purpose: any rows: several of one instance, with signals to consume or intents to settle, or after a refused batch
-- locks: taken by commit_wakes and commit_lock
-- guard: fence = token, not finished, step key free, signal unconsumed; one sequence number for each row that went in
with b as materialized (
    select * from unnest($1::uuid[], $2::bigint[], $3::text[], $4::int[], $5::int[], $6::text[], $7::text[], $8::text[],
            $9::json[], $10::json[], $11::bigint[], $12::bigint[], $13::json[], $14::text[], $15::json[],
            $16::text[], $17::text[])
        with ordinality
        as b(instance_id, token, scope, step_id, attempt, capability_id, capability_version, outcome,
             result, nondeterministic, duration_ms, retry_ms, frontier, finish, finish_result,
             signal_id, settles, ord)
), fit as materialized (
    select b.*, i.next_sequence, i.paused,
           row_number() over (partition by b.instance_id order by b.ord) as nth,
           count(*) over (partition by b.instance_id) as total
      from b join ninelives.flow_instance i on i.instance_id = b.instance_id
     where i.fence = b.token and i.finished_at is null and not (i.paused and b.finish is not null)
       and not exists (select from ninelives.flow_step s where s.instance_id = b.instance_id and s.scope = b.scope
                          and s.step_id = b.step_id and s.attempt = b.attempt)
       and (b.signal_id is null or (
            exists (select from ninelives.flow_signal g where g.instance_id = b.instance_id
                       and g.signal_id = b.signal_id and g.consumed_step_id is null)
            and not exists (select from b e where e.instance_id = b.instance_id
                               and e.signal_id = b.signal_id and e.ord < b.ord)))
), s as (
    insert into ninelives.flow_step (instance_id, sequence, token, duration_ms, committed_at, retry_at, step_id, attempt,
        scope, capability_id, capability_version, outcome, result, nondeterministic)
    select f.instance_id, f.next_sequence + f.nth - 1, f.token, f.duration_ms, now(),
           case when f.retry_ms >= 0 then clock_timestamp() + f.retry_ms * interval '1 ms' end,
           f.step_id, f.attempt, f.scope, f.capability_id, f.capability_version, f.outcome, f.result, f.nondeterministic
      from fit f
), u as (
    update ninelives.flow_instance i
       set next_sequence = i.next_sequence + f.total, version = i.version + 1, claims = 0, updated_at = now(),
           frontier = coalesce(f.frontier, i.frontier),
           snapshot_sequence = case when f.frontier is null then i.snapshot_sequence
                                    else i.next_sequence + f.total - 1 end,
           state = coalesce(f.finish, i.state), result = coalesce(f.finish_result, i.result),
           finished_at = case when f.finish is null then null else now() end
      from fit f
     where f.nth = f.total and i.instance_id = f.instance_id
), g as (
    update ninelives.flow_signal g
       set consumed_scope = f.scope, consumed_step_id = f.step_id, consumed_token = f.token
      from fit f where f.signal_id is not null and g.instance_id = f.instance_id and g.signal_id = f.signal_id
), n as (
    update ninelives.flow_intent n set outcome = f.settles, settled_at = clock_timestamp()
      from fit f where f.settles is not null and n.instance_id = f.instance_id and n.scope = f.scope
       and n.step_id = f.step_id and n.attempt = f.attempt and n.outcome is null
), w as (
    delete from ninelives.flow_wake w using fit f where f.finish is not null and w.instance_id = f.instance_id
), l as (
    update ninelives.flow_lease l set holder = null
      from fit f where f.finish is not null and l.instance_id = f.instance_id and l.token = f.token
)
select (select count(*) from fit) as committed,
       (select array_agg(f.ord::int) from fit f) as ords,
       (select array_agg(f.ord::int) from fit f where f.paused) as paused_ords;

-- name: finish
-- purpose: end instances without a step row: failed, timed out, poisoned, or paused at their last commit
-- locks: taken by commit_wakes and commit_lock
-- guard: fence = token, not finished, not paused; a repeat under the same token with the same state is a success
with b as materialized (
    select * from unnest($1::uuid[], $2::bigint[], $3::text[], $4::json[]) with ordinality
        as b(instance_id, token, finish, finish_result, ord)
), before as materialized (
    select b.ord, case when i.fence <> b.token then 'fenced'
                       when i.finished_at is not null and i.state = b.finish then 'finished'
                       when i.finished_at is not null then 'terminal'
                       when i.paused then 'paused' else 'ready' end as verdict
      from b join ninelives.flow_instance i on i.instance_id = b.instance_id
), u as (
    update ninelives.flow_instance i
       set version = i.version + 1, updated_at = now(), state = b.finish, result = b.finish_result, finished_at = now()
      from b where i.instance_id = b.instance_id and i.fence = b.token and i.finished_at is null and not i.paused
    returning b.ord, i.instance_id, b.token
), w as (
    delete from ninelives.flow_wake w using u where w.instance_id = u.instance_id
), l as (
    update ninelives.flow_lease l set holder = null
      from u where l.instance_id = u.instance_id and l.token = u.token
)
select b.ord::int, case when u.ord is not null then 'finished' else coalesce(p.verdict, 'unknown') end
  from b left join u on u.ord = b.ord left join before p on p.ord = b.ord;

-- name: commit_transactional
-- purpose: the step row of a transactional step, in the transaction of its body; refuses the whole transaction
-- locks: taken by commit_wakes and commit_lock
-- guard: fence = token, not finished, not paused where it would finish, step key free
with u as (
    update ninelives.flow_instance i
       set next_sequence = i.next_sequence + 1, version = i.version + 1, claims = 0, updated_at = now(),
           frontier = coalesce($11::json, i.frontier),
           snapshot_sequence = case when $11::json is null then i.snapshot_sequence else i.next_sequence end,
           state = coalesce($12::text, i.state), result = coalesce($13::json, i.result),
           finished_at = case when $12::text is null then null else now() end
     where i.instance_id = $1::uuid and i.fence = $2::bigint and i.finished_at is null
       and not (i.paused and $12::text is not null)
    returning i.next_sequence - 1 as sequence, i.paused
), s as (
    insert into ninelives.flow_step (instance_id, sequence, token, duration_ms, committed_at, step_id, attempt,
        scope, capability_id, capability_version, outcome, result, nondeterministic)
    select $1::uuid, u.sequence, $2::bigint, $10::bigint, clock_timestamp(), $4::int, $5::int,
           $3::text, $6::text, $7::text, 'Success', $8::json, $9::json
      from u
    on conflict do nothing
    returning 1
), w as (
    delete from ninelives.flow_wake w using u where $12::text is not null and w.instance_id = $1::uuid
), l as (
    update ninelives.flow_lease l set holder = null
      from u where $12::text is not null and l.instance_id = $1::uuid and l.token = $2::bigint
)
select (select u.paused from u) as paused,
       case when (select count(*) from s) <> 1 then ninelives.refuse('the transactional step was not committed') end;

-- name: step_token
-- purpose: under which token a step attempt was committed, if it was
-- locks: none
-- guard: asked only after the backend that may have written it is gone
select s.token from ninelives.flow_step s
 where s.instance_id = $1::uuid and s.scope = $2::text and s.step_id = $3::int and s.attempt = $4::int;
