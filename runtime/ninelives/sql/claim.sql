-- name: claim
-- purpose: take due wakes and the wakes of dead sessions, mint tokens, raise fences; leave the ids for the reads behind it
-- locks: wakes (SKIP LOCKED), instances in id order, leases
-- guard: due, re-checked under the lock; a plan that this node carries; own session alive; returns only what the UPDATE
--  returned; what was often claimed without a commit is taken one at a time, so that poison takes nobody with it
with alive as materialized (
    select 1 from ninelives.node_session
     where session_id = $1 and dead_at is null and expires_at > clock_timestamp()
), orphaned as materialized (
    select w.instance_id from ninelives.flow_wake w
     where w.holder = any (array(select s.session_id from ninelives.node_session s where s.dead_at is not null))
       and w.plan_id = any ($2::int[]) and exists (select from alive)
     limit $4 for no key update of w skip locked
), due as materialized (
    select d.instance_id from unnest($2::int[]) as p(plan_id)
     cross join lateral (
        select w.instance_id, w.run_at from ninelives.flow_wake w
         where w.plan_id = p.plan_id and w.run_at <= now() and w.holder is null and exists (select from alive)
         order by w.run_at limit $3 for no key update of w skip locked) d
     order by d.run_at limit (select greatest(0, $3 - count(*)) from orphaned)
), taken as materialized (
    select instance_id from orphaned union select instance_id from due
), suspect as materialized (
    select i.instance_id from ninelives.flow_instance i
     where i.instance_id in (select t.instance_id from taken t) and i.claims >= $5
     order by i.claims limit $6
), locked as materialized (
    -- Whether it may run is read here, from the row as locked: an UPDATE would judge the version of its snapshot, and
    -- put a wake to rest that a resume had just made.
    select i.instance_id, not i.paused and i.finished_at is null as may_run from ninelives.flow_instance i
     where i.instance_id in (select t.instance_id from taken t)
       and (i.claims < $5 or i.instance_id in (select s.instance_id from suspect s))
     order by i.instance_id for no key update
), raised as (
    update ninelives.flow_instance i
       set fence = greatest(i.fence, coalesce(l.token, 0)) + 1, claims = i.claims + 1, version = i.version + 1,
           state = case i.state when 'Compensating' then i.state else 'Running' end, updated_at = now()
      from locked k left join ninelives.flow_lease l on l.instance_id = k.instance_id
     where i.instance_id = k.instance_id and k.may_run
    returning i.instance_id, i.plan_id, i.fence, i.claims, i.state, i.input, i.frontier,
              i.deadline_at, i.snapshot_sequence < i.next_sequence - 1 as has_rows
), leased as (
    insert into ninelives.flow_lease as l (instance_id, token, holder)
    select instance_id, fence, $1 from raised order by instance_id
    on conflict (instance_id) do update set token = excluded.token, holder = excluded.holder
     where l.token < excluded.token
), held as (
    update ninelives.flow_wake w set holder = $1, run_at = null
      from raised r where w.instance_id = r.instance_id
    returning w.instance_id, w.seq
), rested as (
    update ninelives.flow_wake w set holder = null, run_at = null
      from locked k where w.instance_id = k.instance_id and not k.may_run
), noted as materialized (
    select set_config('ninelives.claimed', coalesce(string_agg(r.instance_id::text, ','), ''), true) from raised r
)
select r.instance_id, r.plan_id, r.fence, h.seq, r.claims, r.state, r.input, r.frontier,
       case when r.deadline_at is null then -1
            else greatest(0, extract(epoch from r.deadline_at - clock_timestamp()) * 1000)::bigint end as deadline_in_ms,
       r.has_rows, exists (select from orphaned o where o.instance_id = r.instance_id) as takeover
  from raised r join held h on h.instance_id = r.instance_id cross join noted;

-- name: read_choose
-- purpose: name the instances that the reads behind it are for
-- locks: none
-- guard: none; local to the transaction
select set_config('ninelives.claimed', $1, true);

-- name: read_steps
-- purpose: the journal rows behind each instance's snapshot, in commit order
-- locks: none; a later statement than the one that took the lease (PROTOCOL R2)
-- guard: read only by the holder, whose fence stands already
select s.instance_id, s.scope, s.step_id, s.attempt, s.sequence, s.outcome, s.result, s.nondeterministic,
       case when s.retry_at is null then -1
            else greatest(0, extract(epoch from s.retry_at - clock_timestamp()) * 1000)::bigint end as retry_in_ms
  from ninelives.flow_instance i
  join ninelives.flow_step s on s.instance_id = i.instance_id and s.sequence > i.snapshot_sequence
 where i.instance_id = any (string_to_array(current_setting('ninelives.claimed', true), ',')::uuid[])
 order by s.instance_id, s.sequence;

-- name: read_signals
-- purpose: the unconsumed signals of each instance, in order of arrival
-- locks: none
-- guard: consumption is checked again with the step row
select g.instance_id, g.signal_id, g.name, g.payload
  from ninelives.flow_signal g
 where g.instance_id = any (string_to_array(current_setting('ninelives.claimed', true), ',')::uuid[])
   and g.consumed_step_id is null
 order by g.signal_seq;

-- name: read_intents
-- purpose: the intents that no step row answers: open ones and voided ones
-- locks: none
-- guard: an intent met here is never permission for the effect
select n.instance_id, n.scope, n.step_id, n.attempt, n.token, n.outcome
  from ninelives.flow_intent n
 where n.instance_id = any (string_to_array(current_setting('ninelives.claimed', true), ',')::uuid[])
   and (n.outcome is null or n.outcome = 'voided')
 order by n.instance_id, n.step_id, n.attempt;

-- name: read_paused
-- purpose: whether each instance is paused, its snapshot, and whether it is still the reader's
-- locks: none
-- guard: none
select i.instance_id, i.paused, i.frontier, i.fence, i.finished_at is not null
  from ninelives.flow_instance i
 where i.instance_id = any (string_to_array(current_setting('ninelives.claimed', true), ',')::uuid[]);

-- name: read_results
-- purpose: the results of named steps of an instance, for a step that selects from what lies before its snapshot
-- locks: none
-- guard: read only by the holder; a success row never changes
select s.scope, s.step_id, s.result
  from unnest($2::text[], $3::int[]) as k(scope, step_id)
  join ninelives.flow_step s on s.instance_id = $1 and s.scope = k.scope and s.step_id = k.step_id
 where s.outcome = 'Success';
