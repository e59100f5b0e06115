"""The batched operations: how rows become one exchange, and how its answer becomes one verdict for each row."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.pq.abc import PGresult

from ninelives.packing import (
    int4_array,
    int8,
    int8_array,
    json_array,
    read_array,
    read_int,
    read_ints,
    text_array,
    uuid_array,
)  # fmt: skip
from ninelives.store.rows import Finish, Intend, Park, Release, Row, Start, StepCommit, Verdict
from ninelives.wire import Statement

_TRUE, _FALSE = b"\x01", b"\x00"


def lock_instances(rows: Sequence[Row]) -> Statement:
    """Lock the instances of a batch in id order."""
    return b"commit_lock", (uuid_array(sorted({row.instance_id for row in rows})),)


def _lock_wakes(block: bytes, rows: Sequence[Row]) -> Statement:
    return block, (uuid_array(sorted({row.instance_id for row in rows})),)


def commit(rows: Sequence[StepCommit], *, careful: bool) -> list[Statement]:
    """The group commit: PROTOCOL operation commit, with finish folded in where a row ends its instance."""
    statements: list[Statement] = []
    ending = [row for row in rows if row.finish is not None]
    if ending:
        statements.append(_lock_wakes(b"commit_wakes", ending))
    statements.append(lock_instances(rows))
    parameters = (
        uuid_array([row.instance_id for row in rows]),
        int8_array([row.token for row in rows]),
        text_array([row.scope for row in rows]),
        int4_array([row.step_id for row in rows]),
        int4_array([row.attempt for row in rows]),
        text_array([row.capability_id for row in rows]),
        text_array([row.capability_version for row in rows]),
        text_array([row.outcome for row in rows]),
        json_array([row.result for row in rows]),
        json_array([row.nondeterministic for row in rows]),
        int8_array([row.duration_ms for row in rows]),
        int8_array([row.retry_ms for row in rows]),
        json_array([row.frontier for row in rows]),
        text_array([row.finish for row in rows]),
        json_array([row.finish_result for row in rows]),
    )
    if careful:
        special = (
            text_array([row.signal_id for row in rows]),
            text_array([row.settles for row in rows]),
        )
        statements.append((b"commit_careful", parameters + special))
    else:
        statements.append((b"commit_rows", parameters))
    return statements


def settle_commit(rows: Sequence[StepCommit], results: Sequence[PGresult]) -> list[StepCommit]:
    """Settle the rows that went in; return those that did not."""
    answer = results[-1]
    paused = answer.get_value(0, 2)
    if paused is not None:
        for ord_ in read_ints(paused):
            rows[ord_ - 1].observed_pause = True
    if read_int(answer.get_value(0, 0) or b"\0") == len(rows):
        for row in rows:
            row.settle(Verdict.COMMITTED)
        return []
    inside = set(read_ints(answer.get_value(0, 1)))
    refused = []
    for ord_, row in enumerate(rows, 1):
        if ord_ in inside:
            row.settle(Verdict.COMMITTED)
        else:
            refused.append(row)
    return refused


def classify(rows: Sequence[StepCommit]) -> list[Statement]:
    """Ask why rows of a batch did not go in."""
    flags = [_TRUE if row.finish is not None else _FALSE for row in rows]
    return [
        lock_instances(rows),
        (
            b"commit_classify",
            (
                uuid_array([row.instance_id for row in rows]),
                int8_array([row.token for row in rows]),
                text_array([row.scope for row in rows]),
                int4_array([row.step_id for row in rows]),
                int4_array([row.attempt for row in rows]),
                _bool_array(flags),
            ),
        ),
    ]


def _bool_array(values: Sequence[bytes]) -> bytes:
    head = b"".join(n.to_bytes(4, "big") for n in (1, 0, 16, len(values), 1))
    return head + b"".join(b"\0\0\0\1" + value for value in values)


def finish(rows: Sequence[Finish]) -> list[Statement]:
    """PROTOCOL operation finish, for ends without a step row."""
    return [
        _lock_wakes(b"commit_wakes", rows),
        lock_instances(rows),
        (
            b"finish",
            (
                uuid_array([row.instance_id for row in rows]),
                int8_array([row.token for row in rows]),
                text_array([row.state for row in rows]),
                json_array([row.result for row in rows]),
            ),
        ),
    ]


def intend(rows: Sequence[Intend]) -> list[Statement]:
    """PROTOCOL at_most_once: the intent rows."""
    return [
        lock_instances(rows),
        (
            b"intend",
            (
                uuid_array([row.instance_id for row in rows]),
                int8_array([row.token for row in rows]),
                text_array([row.scope for row in rows]),
                int4_array([row.step_id for row in rows]),
                int4_array([row.attempt for row in rows]),
                text_array([row.idempotency_key for row in rows]),
            ),
        ),
    ]


def park(rows: Sequence[Park], session_id: int) -> list[Statement]:
    """PROTOCOL operation park."""
    return [
        _lock_wakes(b"park_lock_wakes", rows),
        lock_instances(rows),
        (
            b"park",
            (
                uuid_array([row.instance_id for row in rows]),
                int8_array([row.token for row in rows]),
                int8_array([row.seq for row in rows]),
                int8_array([row.delay_ms for row in rows]),
                int8(session_id),
            ),
        ),
    ]


def settle_park(rows: Sequence[Park], results: Sequence[PGresult]) -> None:
    """Settle parks; where the wake moved on, the row learns the seq that it has now."""
    answer = results[-1]
    for line in range(answer.ntuples):
        row = rows[read_int(answer.get_value(line, 0) or b"\0") - 1]
        row.current_seq = read_int(answer.get_value(line, 2) or b"\0")
        row.settle((answer.get_value(line, 1) or b"").decode())


def release(rows: Sequence[Release], session_id: int) -> list[Statement]:
    """PROTOCOL operation release."""
    return [
        _lock_wakes(b"park_lock_wakes", rows),
        lock_instances(rows),
        (
            b"release",
            (
                uuid_array([row.instance_id for row in rows]),
                int8_array([row.token for row in rows]),
                int8(session_id),
                _bool_array([_TRUE if row.counts else _FALSE for row in rows]),
            ),
        ),
    ]


def settle_verdicts(rows: Sequence[Row], results: Sequence[PGresult]) -> None:
    """Settle rows from an answer of (ord, verdict) lines."""
    answer = results[-1]
    for line in range(answer.ntuples):
        verdict = (answer.get_value(line, 1) or b"").decode()
        rows[read_int(answer.get_value(line, 0) or b"\0") - 1].settle(verdict)


def start(rows: Sequence[Start], start_lock: int, session_id: int | None, channel: bytes) -> list[Statement]:
    """PROTOCOL operation start; with ``session_id`` the lease is taken with it."""
    parameters = (
        uuid_array([row.instance_id for row in rows]),
        int4_array([row.plan_id for row in rows]),
        text_array([row.flow_id for row in rows]),
        text_array([row.flow_version for row in rows]),
        json_array([row.input for row in rows]),
        int8_array([row.deadline_ms for row in rows]),
    )
    guard: Statement = (b"start_guard", (start_lock.to_bytes(4, "big", signed=True),))
    if session_id is not None:
        return [guard, (b"start_held", (*parameters, int8(session_id)))]
    return [guard, (b"start", parameters), (b"start_notify", (channel,))]


def settle_start(rows: Sequence[Start], results: Sequence[PGresult]) -> list[Start]:
    """Settle the rows that are new; return those whose id existed."""
    answer = results[1]
    started = read_array(answer.get_value(0, 0))
    tokens = read_ints(answer.get_value(0, 1)) if answer.nfields > 1 else [0] * len(started)
    issued = dict(zip(started, tokens, strict=True))
    existing = []
    for row in rows:
        token = issued.pop(row.instance_id, None)
        if token is None:
            existing.append(row)
        else:
            row.token = token
            row.settle("held" if row.hold else "started")
    return existing


def start_existing(rows: Sequence[Start]) -> list[Statement]:
    """Ask whether ids that existed were started with the same input."""
    return [
        (
            b"start_existing",
            (
                uuid_array([row.instance_id for row in rows]),
                text_array([row.flow_id for row in rows]),
                json_array([row.input for row in rows]),
            ),
        )
    ]


def settle_start_existing(rows: Sequence[Start], results: Sequence[PGresult]) -> list[Start]:
    """Settle repeats and conflicts; return rows that neither went in nor exist (a dead session starts nothing)."""
    answer = results[0]
    found: dict[bytes, tuple[bool, str]] = {}
    for line in range(answer.ntuples):
        same = answer.get_value(line, 1) == _TRUE
        found[answer.get_value(line, 0) or b""] = (same, (answer.get_value(line, 2) or b"").decode())
    missing = []
    for row in rows:
        known = found.get(row.instance_id)
        if known is None:
            missing.append(row)
            continue
        row.state = known[1]
        row.settle("exists" if known[0] else "conflict")
    return missing
