-- name: intend
-- purpose: record that an at_most_once effect is about to begin; the answer to this insert is the only permission
-- locks: taken by commit_lock
-- guard: fence = token, not finished, not paused; never an upsert
with b as materialized (
    select * from unnest($1::uuid[], $2::bigint[], $3::text[], $4::int[], $5::int[], $6::text[]) with ordinality
        as b(instance_id, token, scope, step_id, attempt, idempotency_key, ord)
), n as (
    insert into ninelives.flow_intent (instance_id, scope, step_id, attempt, token, idempotency_key, created_at)
    select b.instance_id, b.scope, b.step_id, b.attempt, b.token, b.idempotency_key, clock_timestamp()
      from b join ninelives.flow_instance i on i.instance_id = b.instance_id
     where i.fence = b.token and i.finished_at is null and not i.paused
    on conflict do nothing
    returning instance_id, scope, step_id, attempt
)
select b.ord::int,
       case when n.instance_id is not null then 'accepted'
            when e.instance_id is not null and e.token = b.token and e.outcome is null then 'exists under this token'
            when i.fence <> b.token then 'fenced'
            when i.finished_at is not null then 'terminal'
            when i.paused then 'paused'
            else 'exists' end
  from b left join n on n.instance_id = b.instance_id and n.scope = b.scope and n.step_id = b.step_id and n.attempt = b.attempt
         left join ninelives.flow_intent e on e.instance_id = b.instance_id and e.scope = b.scope
               and e.step_id = b.step_id and e.attempt = b.attempt
         left join ninelives.flow_instance i on i.instance_id = b.instance_id;

-- name: doubt
-- purpose: note that a successor met an intent without an outcome
-- locks: taken by commit_lock
-- guard: fence = token, not finished; the first to meet it stays noted
update ninelives.flow_intent n set doubted_token = coalesce(n.doubted_token, $2)
  from ninelives.flow_instance i
 where i.instance_id = $1 and i.fence = $2 and i.finished_at is null
   and n.instance_id = $1 and n.scope = $3 and n.step_id = $4 and n.attempt = $5 and n.outcome is null
returning n.attempt;

-- name: void
-- purpose: close an intent whose key the sink now refuses for ever
-- locks: taken by commit_lock
-- guard: fence = token, not finished; an outcome is never overwritten
update ninelives.flow_intent n set outcome = 'voided', settled_at = clock_timestamp()
  from ninelives.flow_instance i
 where i.instance_id = $1 and i.fence = $2 and i.finished_at is null
   and n.instance_id = $1 and n.scope = $3 and n.step_id = $4 and n.attempt = $5
   and (n.outcome is null or n.outcome = 'voided')
returning n.attempt;
