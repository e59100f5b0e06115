-- name: session_lock
-- purpose: take the lock whose loss tells every other node that this process is gone
-- locks: the session's advisory lock, at session level, for the life of the connection
-- guard: the id is new and random, so the lock is free
select pg_try_advisory_lock($1);

-- name: session_open
-- purpose: make the session known, after its lock is held
-- locks: none
-- guard: the primary key; a session id is never reused
insert into ninelives.node_session (session_id, node_name, server_start, opened_at, expires_at)
values ($1, $2, pg_postmaster_start_time(), clock_timestamp(), clock_timestamp() + $3 * interval '1 ms')
returning extract(epoch from clock_timestamp()) * 1000000;

-- name: session_renew
-- purpose: one heartbeat for every lease of the node
-- locks: session
-- guard: not dead and not expired: a session never revives
update ninelives.node_session s set expires_at = clock_timestamp() + $2 * interval '1 ms'
 where s.session_id = $1 and s.dead_at is null and s.expires_at > clock_timestamp()
returning (extract(epoch from clock_timestamp()) * 1000000)::bigint;

-- name: session_close
-- purpose: a node that leaves in order says so itself
-- locks: session
-- guard: none; what it still held becomes due
update ninelives.node_session s set dead_at = clock_timestamp() where s.session_id = $1 and s.dead_at is null;

-- name: session_neighbour
-- purpose: whom to watch: the next living session in the order of ids, around the ring
-- locks: none
-- guard: none
select s.session_id from ninelives.node_session s
 where s.dead_at is null and s.session_id <> $1 and s.server_start = pg_postmaster_start_time()
 order by s.session_id < $1, s.session_id limit 1;

-- name: session_await_death
-- purpose: wait for the neighbour's lock, at most lock_timeout; false when it was not to be had until then
-- locks: the neighbour's advisory lock, for this transaction
-- guard: granted only when the neighbour's connection is gone
select ninelives.await_lock($1);

-- name: session_declare_dead
-- purpose: declare the session whose lock this transaction holds dead
-- locks: session
-- guard: the lock counts only if the session opened on this run of the server
update ninelives.node_session s set dead_at = clock_timestamp()
 where s.session_id = $1 and s.dead_at is null and s.server_start = pg_postmaster_start_time()
returning s.session_id;

-- name: session_look
-- purpose: the periodic look over all sessions: of an earlier run of the server, expired, or with its lock gone, is dead
-- locks: advisory locks of the sessions it looks at, for this transaction; sessions
-- guard: a session ends with its connection, so none outlives the run of the server that it was opened on
update ninelives.node_session s set dead_at = clock_timestamp()
 where s.session_id in (
    select c.session_id from ninelives.node_session c
     where c.dead_at is null and c.session_id <> $1
       and case when c.server_start <> pg_postmaster_start_time() or c.expires_at < clock_timestamp() then true
                else pg_try_advisory_xact_lock(c.session_id) end
     for update skip locked)
returning s.session_id;

-- name: session_adopt_missing
-- purpose: a holder without a session row gets one that is dead, so that its wakes are due
-- locks: session
-- guard: the primary key
with recursive holders as (
    (select w.holder from ninelives.flow_wake w where w.holder is not null order by w.holder limit 1)
    union all
    select (select w.holder from ninelives.flow_wake w where w.holder > h.holder order by w.holder limit 1)
      from holders h where h.holder is not null
)
insert into ninelives.node_session (session_id, node_name, server_start, opened_at, expires_at, dead_at)
select h.holder, 'missing', pg_postmaster_start_time(), clock_timestamp(), clock_timestamp(), clock_timestamp()
  from holders h
 where h.holder is not null
   and not exists (select from ninelives.node_session s where s.session_id = h.holder)
on conflict do nothing
returning session_id;

-- name: session_prune
-- purpose: forget sessions that died long ago and hold nothing
-- locks: session
-- guard: no wake names it
delete from ninelives.node_session s
 where s.dead_at < clock_timestamp() - $1 * interval '1 ms'
   and not exists (select from ninelives.flow_wake w where w.holder = s.session_id);

-- name: session_backends
-- purpose: end every backend that a dead session left behind, with the locks that it may still hold
-- locks: none
-- guard: the application name carries the session id
select count(pg_terminate_backend(a.pid)) from pg_stat_activity a
 where a.application_name = $1 and a.pid <> pg_backend_pid();

-- name: plan_register
-- purpose: make a plan known and get its number
-- locks: plan
-- guard: another fingerprint under the same version changes nothing and is told
insert into ninelives.flow_plan as p (flow_id, flow_version, fingerprint, plan)
values ($1, $2, $3, $4)
on conflict (flow_id, flow_version) do update set registered_at = p.registered_at
returning p.plan_id, p.fingerprint;

-- name: plan_find
-- purpose: a plan by flow and version; the newest where no version is given
-- locks: none
-- guard: none
select p.plan_id, p.flow_version, p.plan from ninelives.flow_plan p
 where p.flow_id = $1 and ($2::text is null or p.flow_version = $2)
 order by p.plan_id desc limit 1;

-- name: transaction_end
-- purpose: end the backend of a transactional step whose answer was lost, so that its outcome can be read
-- locks: none
-- guard: only a backend of this session
select pg_terminate_backend(a.pid) from pg_stat_activity a
 where a.pid = $1::int and a.application_name = current_setting('application_name') and a.pid <> pg_backend_pid();
