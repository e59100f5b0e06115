-- name: park_lock_wakes
-- purpose: lock the wakes of a batch of parks or releases
-- locks: wakes in id order
-- guard: the lock order (PROTOCOL R1)
select count(*) from (
    select 1 from ninelives.flow_wake w where w.instance_id = any ($1::uuid[])
     order by w.instance_id for no key update) locked;

-- name: park
-- purpose: let instances rest until their earliest due time or until something wakes them
-- locks: taken by park_lock_wakes and commit_lock
-- guard: fence = token, lease.token = token, holder = me, seq as claimed; otherwise nothing moves and seq is told
with b as (
    select * from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[]) with ordinality
        as b(instance_id, token, seq, delay_ms, ord)
), mine as materialized (
    select b.*, w.seq as current_seq, i.paused, i.deadline_at
      from b join ninelives.flow_wake w on w.instance_id = b.instance_id
             join ninelives.flow_instance i on i.instance_id = b.instance_id
             join ninelives.flow_lease l on l.instance_id = b.instance_id
     where w.holder = $5 and i.fence = b.token and l.token = b.token
), w as (
    update ninelives.flow_wake w
       set holder = null, seen_seq = w.seq,
           run_at = case when m.paused then null
                         else least(m.deadline_at,
                                    case when m.delay_ms >= 0 then clock_timestamp() + m.delay_ms * interval '1 ms' end) end
      from mine m where w.instance_id = m.instance_id and (m.seq = m.current_seq or m.paused)
    returning w.instance_id
), i as (
    update ninelives.flow_instance i
       set state = case when i.paused or i.state = 'Compensating' then i.state else 'Suspended' end,
           claims = 0, version = i.version + 1, updated_at = now()
      from w where i.instance_id = w.instance_id
), l as (
    update ninelives.flow_lease l set holder = null from w where l.instance_id = w.instance_id
)
select b.ord::int,
       case when m.ord is null then 'not holder' when w.instance_id is not null then 'parked' else 'again' end,
       coalesce(m.current_seq, 0)
  from b left join mine m on m.ord = b.ord left join w on w.instance_id = b.instance_id;

-- name: release
-- purpose: give leases back, due at once: a node that leaves, or the audit of a claim that was never answered
-- locks: taken by park_lock_wakes and commit_lock
-- guard: holder = me and lease.token = token = fence; the state stays; a claim that did its work badly keeps counting
with b as (
    select * from unnest($1::uuid[], $2::bigint[], $4::bool[]) with ordinality as b(instance_id, token, counts, ord)
), w as (
    update ninelives.flow_wake w set holder = null, run_at = now()
      from b join ninelives.flow_instance i on i.instance_id = b.instance_id
             join ninelives.flow_lease l on l.instance_id = b.instance_id
     where w.instance_id = b.instance_id and w.holder = $3 and i.fence = b.token and l.token = b.token
    returning w.instance_id, b.counts
), l as (
    update ninelives.flow_lease l set holder = null from w where l.instance_id = w.instance_id
), c as (
    update ninelives.flow_instance i set claims = greatest(0, i.claims - 1)
      from w where i.instance_id = w.instance_id and not w.counts
)
select b.ord::int, case when w.instance_id is null then 'not holder' else 'released' end
  from b left join w on w.instance_id = b.instance_id;

-- name: audit
-- purpose: what this session holds according to the database
-- locks: none; a release behind it checks again
-- guard: none
select w.instance_id, l.token
  from ninelives.flow_wake w join ninelives.flow_lease l on l.instance_id = w.instance_id
 where w.holder = $1;
