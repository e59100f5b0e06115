-- name: inspect_instance
-- purpose: everything the store knows of one instance, as one document from one snapshot, for people and --json
-- locks: none
-- guard: none; a look that decides nothing
select json_build_object(
    'read_at', statement_timestamp(),
    'instance', json_build_object(
        'instance_id', i.instance_id, 'flow_id', i.flow_id, 'version', i.flow_version, 'state', i.state,
        'paused', i.paused, 'created_at', i.created_at, 'updated_at', i.updated_at, 'finished_at', i.finished_at,
        'deadline_at', i.deadline_at, 'fence', i.fence, 'claims', i.claims, 'rows', i.next_sequence - 1,
        'input', i.input, 'result', i.result),
    'plan', (select p.plan from ninelives.flow_plan p where p.plan_id = i.plan_id),
    'frontier', i.frontier,
    'behind', (
        select json_agg(json_build_array(s.scope, s.step_id, s.attempt, s.sequence, s.outcome) order by s.sequence)
          from ninelives.flow_step s
         where s.instance_id = i.instance_id and s.sequence > i.snapshot_sequence),
    'attempts', (
        select json_agg(json_build_object(
                   'sequence', s.sequence, 'scope', s.scope, 'step_id', s.step_id, 'attempt', s.attempt,
                   'outcome', s.outcome, 'token', s.token, 'duration_ms', s.duration_ms,
                   'committed_at', s.committed_at, 'retry_at', s.retry_at, 'capability', s.capability_id,
                   'capability_version', s.capability_version, 'result', s.result) order by s.sequence)
          from (select * from ninelives.flow_step f where f.instance_id = i.instance_id
                 order by f.sequence desc limit $2::int) s),
    'intents', (
        select json_agg(json_build_object(
                   'scope', n.scope, 'step_id', n.step_id, 'attempt', n.attempt, 'token', n.token,
                   'idempotency_key', n.idempotency_key, 'created_at', n.created_at,
                   'doubted_token', n.doubted_token, 'outcome', n.outcome, 'settled_at', n.settled_at)
                   order by n.created_at, n.step_id, n.attempt)
          from (select * from ninelives.flow_intent f where f.instance_id = i.instance_id
                 order by (f.outcome is null) desc, f.created_at desc limit $2::int) n),
    'signals', (
        select json_agg(json_build_object(
                   'signal_id', g.signal_id, 'name', g.name, 'payload', g.payload, 'received_at', g.received_at)
                   order by g.signal_seq)
          from ninelives.flow_signal g where g.instance_id = i.instance_id and g.consumed_step_id is null),
    'signals_consumed', (
        select count(*) from ninelives.flow_signal g
         where g.instance_id = i.instance_id and g.consumed_step_id is not null),
    'lease_token', l.token,
    'wake', case when w.instance_id is not null then json_build_object(
        'seq', w.seq, 'seen_seq', w.seen_seq, 'run_at', w.run_at,
        'due', w.holder is null and w.run_at is not null and w.run_at <= statement_timestamp()) end,
    'holder', w.holder,
    'session', case when h.session_id is not null then json_build_object(
        'node', h.node_name, 'opened_at', h.opened_at, 'expires_at', h.expires_at, 'dead_at', h.dead_at,
        'expired', h.expires_at <= statement_timestamp(),
        'locked', h.server_start <> pg_postmaster_start_time() or exists (
            select from pg_catalog.pg_locks k
             where k.locktype = 'advisory' and k.objsubid = 1 and k.granted
               and k.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())
               and (k.classid::bigint << 32 | k.objid::bigint) = h.session_id)) end,
    'nodes_alive', (
        select count(*) from ninelives.node_session a
         where a.dead_at is null and a.expires_at > statement_timestamp())
    )
  from ninelives.flow_instance i
  left join ninelives.flow_lease l on l.instance_id = i.instance_id
  left join ninelives.flow_wake w on w.instance_id = i.instance_id
  left join ninelives.node_session h on h.session_id = w.holder
 where i.instance_id = $1::uuid;

-- name: inspect_list
-- purpose: the newest instances that match, with counts by state of all that match, for people and --json
-- locks: none
-- guard: none; a look that decides nothing
with open as materialized (
    select n.instance_id, count(*) as in_doubt
      from ninelives.flow_intent n
      join ninelives.flow_instance i on i.instance_id = n.instance_id
      left join ninelives.flow_wake w on w.instance_id = n.instance_id
      left join ninelives.node_session h on h.session_id = w.holder
     where n.outcome is null
       and (n.doubted_token is not null or n.token <> i.fence or h.session_id is null or h.dead_at is not null
            or h.expires_at <= statement_timestamp())
     group by n.instance_id
), newest as materialized (
    select i.instance_id, i.flow_id, i.flow_version, i.state, i.paused, i.created_at, i.updated_at, i.finished_at,
           i.next_sequence - 1 as rows, i.fence
      from ninelives.flow_instance i
     where ($1::text is null or i.state = $1) and ($2::text is null or i.flow_id = $2)
       and (not $4::bool or i.instance_id in (select o.instance_id from open o))
     order by i.created_at desc, i.instance_id desc limit $3::int
), found as materialized (
    select n.*, w.run_at, h.node_name, coalesce(o.in_doubt, 0) as in_doubt
      from newest n
      left join ninelives.flow_wake w on w.instance_id = n.instance_id
      left join ninelives.node_session h on h.session_id = w.holder
      left join open o on o.instance_id = n.instance_id
)
select json_build_object(
    'read_at', statement_timestamp(),
    'counts', (
        select json_object_agg(c.state, c.count order by c.state) from (
            select i.state, count(*) as count from ninelives.flow_instance i
             where ($1::text is null or i.state = $1) and ($2::text is null or i.flow_id = $2)
               and (not $4::bool or i.instance_id in (select o.instance_id from open o))
             group by i.state) c),
    'instances', (
        select json_agg(json_build_object(
                   'instance_id', f.instance_id, 'flow_id', f.flow_id, 'version', f.flow_version, 'state', f.state,
                   'paused', f.paused, 'in_doubt', f.in_doubt, 'rows', f.rows, 'token', f.fence, 'node', f.node_name,
                   'run_at', f.run_at, 'created_at', f.created_at, 'updated_at', f.updated_at,
                   'finished_at', f.finished_at) order by f.created_at desc, f.instance_id desc)
          from found f));
