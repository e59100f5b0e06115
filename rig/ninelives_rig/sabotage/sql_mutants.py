"""The mutants that change what a statement of the store checks or writes, as edits of its text."""

from __future__ import annotations

from collections.abc import Mapping

from ninelives_rig.sabotage.planting import Edit, SqlEdit

_MINT = "greatest(i.fence, coalesce(l.token, 0)) + 1"
_LEASE_KEPT = "update ninelives.flow_lease l set holder = null from w where l.instance_id = w.instance_id"
_LEASE_DELETED = "delete from ninelives.flow_lease l using w where l.instance_id = w.instance_id"
_HOLDER = "w.holder = $5 and i.fence = b.token and l.token = b.token"
_START_WAKE = """, w as (
    insert into ninelives.flow_wake (instance_id, plan_id, seq, seen_seq, run_at)
    select instance_id, plan_id, 1, 0, now() from i order by instance_id
    on conflict do nothing
)"""
_START_HELD_WAKE = """, w as (
    insert into ninelives.flow_wake (instance_id, plan_id, seq, seen_seq, holder)
    select instance_id, plan_id, 1, 0, $7 from i order by instance_id
    on conflict do nothing
)"""
_STEP_REFUSED = """      from u
    on conflict do nothing
    returning 1
), w as ("""
_STEP_UPSERTED = """      from u
    on conflict (instance_id, scope, step_id, attempt) do update
       set sequence = excluded.sequence, token = excluded.token, outcome = excluded.outcome, result = excluded.result
    returning 1
), w as ("""
SIGNAL_BUMP = """    update ninelives.flow_wake w
       set seq = w.seq + 1, run_at = case when w.holder is null then now() else w.run_at end
     where w.instance_id = $1
    returning 1
"""
SIGNAL_LOOK = "    select 1 from ninelives.flow_wake w where w.instance_id = $1\n"
_ANOTHER_ID = "select $1, $2 || ' ' || clock_timestamp(), $3, $4, clock_timestamp()"

SQL_MUTANTS: Mapping[str, tuple[Edit, ...]] = {
    "commit-unfenced": (
        SqlEdit("commit_rows", "and i.fence = b.token and i.finished_at", "and i.finished_at"),
        SqlEdit("commit_careful", "where i.fence = b.token and i.finished_at", "where i.finished_at"),
        SqlEdit("commit_classify", "            when i.fence <> b.token then 'fenced'\n", ""),
    ),
    "transaction-unfenced": (SqlEdit("commit_transactional", "and i.fence = $2::bigint and", "and"),),
    "fence-at-first-write": (
        SqlEdit("claim", f"set fence = {_MINT}, claims", "set claims"),
        SqlEdit(
            "claim",
            "returning i.instance_id, i.plan_id, i.fence, i.claims",
            f"returning i.instance_id, i.plan_id, {_MINT} as fence, i.claims",
        ),
        SqlEdit("commit_rows", "i.fence = b.token", "i.fence <= b.token"),
        SqlEdit("commit_rows", "set next_sequence", "set fence = b.token, next_sequence"),
        SqlEdit("commit_careful", "i.fence = b.token", "i.fence <= b.token"),
        SqlEdit("commit_careful", "set next_sequence", "set fence = f.token, next_sequence"),
        SqlEdit("commit_classify", "i.fence <> b.token", "i.fence > b.token"),
        SqlEdit("finish", "i.fence <> b.token", "i.fence > b.token"),
        SqlEdit("finish", "i.fence = b.token", "i.fence <= b.token"),
        SqlEdit("park", "i.fence = b.token", "i.fence <= b.token"),
        SqlEdit("release", "i.fence = b.token", "i.fence <= b.token"),
    ),
    "token-kept-on-takeover": (SqlEdit("claim", _MINT, "greatest(i.fence, coalesce(l.token, 0), 1)"),),
    "lease-row-deleted": (
        SqlEdit("claim", _MINT, "coalesce(l.token, 0) + 1"),
        SqlEdit("park", _LEASE_KEPT, _LEASE_DELETED),
        SqlEdit("release", _LEASE_KEPT, _LEASE_DELETED),
        SqlEdit(
            "commit_rows",
            "update ninelives.flow_lease l set holder = null\n      from u where",
            "delete from ninelives.flow_lease l using u where",
        ),
    ),
    "park-without-token": (SqlEdit("park", _HOLDER, "$5::bigint is not null"),),
    "park-without-seq": (SqlEdit("park", " and (m.seq = m.current_seq or m.paused)", ""),),
    "duplicate-upserted": (SqlEdit("commit_rows", _STEP_REFUSED, _STEP_UPSERTED),),
    "waker-skips-pending": (
        SqlEdit("wake", "where w.instance_id = $1", "where w.instance_id = $1 and w.seq = w.seen_seq"),
        SqlEdit("signal", SIGNAL_BUMP, SIGNAL_BUMP.replace("= $1", "= $1 and w.seq = w.seen_seq")),
        SqlEdit("signal", " from w\n", " from ninelives.flow_wake w where w.instance_id = $1\n"),
    ),
    "signal-without-dedupe": (
        SqlEdit("signal", "select $1, $2, $3, $4, clock_timestamp()", _ANOTHER_ID),
        SqlEdit("signal_early", "select $1, $2, $3, $4, clock_timestamp()", _ANOTHER_ID),
    ),
    "pause-ignored": (
        SqlEdit("claim", "select i.instance_id, not i.paused and i.finished_at", "select i.instance_id, i.finished_at"),
        SqlEdit("commit_rows", "       and not (i.paused and b.finish is not null)\n", ""),
        SqlEdit("commit_rows", "from u where u.paused)", "from u where false)"),
        SqlEdit("commit_careful", " and not (i.paused and b.finish is not null)", ""),
        SqlEdit("commit_careful", "from fit f where f.paused)", "from fit f where false)"),
    ),
    "wake-before-signal": (SqlEdit("signal", SIGNAL_BUMP, SIGNAL_LOOK),),
    "finish-leaves-wake": (
        SqlEdit(
            "commit_rows",
            "delete from ninelives.flow_wake w using u where u.finish is not null and w.instance_id = u.instance_id\n"
            "    returning 1",
            "select 1 from u where u.finish is not null",
        ),
    ),
    "start-in-two-transactions": (
        SqlEdit("start", _START_WAKE, ""),
        SqlEdit("start_held", _START_HELD_WAKE, ""),
    ),
    "version-pin-ignored": (
        SqlEdit("claim", "and w.plan_id = any ($2::int[]) and", "and (w.plan_id = any ($2::int[]) or true) and"),
        SqlEdit("claim", "from unnest($2::int[]) as p(plan_id)", "from ninelives.flow_plan p"),
    ),
    "session-revives": (
        SqlEdit("session_renew", " and s.dead_at is null and s.expires_at > clock_timestamp()", ""),
    ),
}
