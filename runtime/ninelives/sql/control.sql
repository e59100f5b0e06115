-- name: wake
-- purpose: bump the wake of an instance; always, also when a wake is pending
-- locks: wake
-- guard: none; no row means that the instance is finished or unknown
update ninelives.flow_wake w
   set seq = w.seq + 1, run_at = case when w.holder is null then now() else w.run_at end
 where w.instance_id = $1
returning w.seq;

-- name: signal
-- purpose: bump the wake of an instance and put a signal into its inbox
-- locks: wake
-- guard: accepted only behind a bump that found a wake: an instance that is started meanwhile, and held and parked, would
--  never look again. The signal id makes a repeat harmless
with w as (
    update ninelives.flow_wake w
       set seq = w.seq + 1, run_at = case when w.holder is null then now() else w.run_at end
     where w.instance_id = $1
    returning 1
), n as (
    insert into ninelives.flow_signal (instance_id, signal_id, name, payload, received_at)
    select $1, $2, $3, $4, clock_timestamp() from w
    on conflict (instance_id, signal_id) do nothing
    returning 1
)
select case when exists (select from n) then 'accepted'
            when exists (select from w) then 'duplicate'
            when exists (select from ninelives.flow_signal g where g.instance_id = $1 and g.signal_id = $2) then 'duplicate'
            when exists (select from ninelives.flow_instance i where i.instance_id = $1) then 'finished'
            else 'unknown' end;

-- name: signal_guard
-- purpose: keep the start of an instance away while a signal for it is put aside
-- locks: the schema's start lock, exclusive
-- guard: a start takes the same lock shared
select pg_advisory_xact_lock($1, 0);

-- name: signal_early
-- purpose: put aside a signal for an instance that is not started yet
-- locks: the start lock and, where it exists by now, the wake
-- guard: the signal id makes a repeat harmless
with n as (
    insert into ninelives.flow_signal (instance_id, signal_id, name, payload, received_at)
    select $1, $2, $3, $4, clock_timestamp()
     where exists (select from ninelives.flow_wake w where w.instance_id = $1)
        or not exists (select from ninelives.flow_instance i where i.instance_id = $1)
    on conflict (instance_id, signal_id) do nothing
    returning 1
)
select case when exists (select from n) and exists (select from ninelives.flow_wake w where w.instance_id = $1) then 'accepted'
            when exists (select from n) then 'buffered'
            when exists (select from ninelives.flow_signal g where g.instance_id = $1 and g.signal_id = $2) then 'duplicate'
            else 'finished' end;

-- name: pause
-- purpose: let an instance start nothing more; what is in flight ends
-- locks: wake (the statement before it), instance
-- guard: not finished
update ninelives.flow_instance i set paused = true, version = i.version + 1, updated_at = now()
 where i.instance_id = $1 and i.finished_at is null
returning i.state;

-- name: pause_lock
-- purpose: lock the wake of an instance for an operator's change
-- locks: wake
-- guard: the lock order (PROTOCOL R1)
select w.seq from ninelives.flow_wake w where w.instance_id = $1 for no key update;

-- name: resume
-- purpose: take the pause away; the bump of the wake goes before it in the same transaction
-- locks: wake (the statement before it), instance
-- guard: not finished
update ninelives.flow_instance i set paused = false, version = i.version + 1, updated_at = now()
 where i.instance_id = $1 and i.finished_at is null
returning i.state;

-- name: settle
-- purpose: an operator's word on an effect in doubt: the intent gets its outcome; the bump of the wake goes before it
-- locks: wake (the statement before it), instance (commit_lock)
-- guard: nobody holds the instance, and the intent has no outcome
update ninelives.flow_intent n set outcome = 'voided', settled_at = clock_timestamp()
 where n.instance_id = $1 and n.scope = $2 and n.step_id = $3 and n.outcome is null
   and exists (select from ninelives.flow_wake w where w.instance_id = $1 and w.holder is null)
returning n.attempt;

-- name: known
-- purpose: whether an instance exists and how it ended
-- locks: none
-- guard: none
select i.state, i.result from ninelives.flow_instance i where i.instance_id = $1;
