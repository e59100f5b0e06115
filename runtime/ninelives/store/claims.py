"""Taking leases and reading frontiers: PROTOCOL operations claim and read, in one flush."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from psycopg.pq.abc import PGresult

from ninelives.packing import int4, int4_array, int8, read_int
from ninelives.store.rows import Claimed, IntentRead, SignalRead, StepRead
from ninelives.wire import Statement


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one claim may take: due instances, those of dead sessions, and among them suspects.

    A suspect has been claimed ``suspicious_claims`` times or more without a commit: it may be what ends its nodes.
    """

    due: int
    orphaned: int
    suspicious_claims: int
    suspects: int


_READS: tuple[Statement, ...] = ((b"read_steps", ()), (b"read_signals", ()), (b"read_intents", ()))


def claim(session_id: int, plan_ids: Sequence[int], limits: Limits) -> list[Statement]:
    """Take what is due and what dead sessions held, within ``limits``, and read it."""
    taking = (
        b"claim",
        (
            int8(session_id),
            int4_array(plan_ids),
            int8(limits.due),
            int8(limits.orphaned),
            int4(limits.suspicious_claims),
            int8(limits.suspects),
        ),
    )
    return [taking, *_READS]


def read(instance_ids: Iterable[bytes]) -> list[Statement]:
    """Read instances that this node holds again."""
    names = ",".join(str(UUID(bytes=instance_id)) for instance_id in instance_ids)
    return [(b"read_choose", (names.encode(),)), *_READS, (b"read_paused", ())]


def claimed(results: Sequence[PGresult]) -> list[Claimed]:
    """Decode the answer of ``claim``."""
    head, reads = results[0], results[1:4]
    if head.ntuples == 0:
        return []
    steps, signals, intents = _steps(reads[0]), _signals(reads[1]), _intents(reads[2])
    taken = []
    for line in range(head.ntuples):
        cell = [head.get_value(line, column) for column in range(11)]
        instance_id = cell[0] or b""
        taken.append(
            Claimed(
                instance_id=instance_id,
                plan_id=read_int(cell[1] or b"\0"),
                token=read_int(cell[2] or b"\0"),
                seq=read_int(cell[3] or b"\0"),
                claims=read_int(cell[4] or b"\0"),
                state=(cell[5] or b"").decode(),
                input=cell[6] or b"null",
                frontier=cell[7],
                deadline_in_ms=read_int(cell[8] or b"\0"),
                takeover=cell[10] == b"\x01",
                steps=tuple(steps.get(instance_id, ())),
                signals=tuple(signals.get(instance_id, ())),
                intents=tuple(intents.get(instance_id, ())),
            )
        )
    return taken


def read_again(before: Claimed, results: Sequence[PGresult]) -> Claimed:
    """Decode the answer of ``read`` for one instance: the same lease with what the store holds now."""
    head = results[4]
    if head.ntuples == 0:
        return replace(before, lost=True)
    return replace(
        before,
        steps=tuple(_steps(results[1]).get(before.instance_id, ())),
        signals=tuple(_signals(results[2]).get(before.instance_id, ())),
        intents=tuple(_intents(results[3]).get(before.instance_id, ())),
        paused=head.get_value(0, 1) == b"\x01",
        frontier=head.get_value(0, 2),
        lost=read_int(head.get_value(0, 3) or b"\0") != before.token or head.get_value(0, 4) == b"\x01",
    )


def _text(value: bytes | None) -> str:
    return (value or b"").decode()


def _steps(answer: PGresult) -> dict[bytes, list[StepRead]]:
    found: dict[bytes, list[StepRead]] = defaultdict(list)
    get = answer.get_value
    for line in range(answer.ntuples):
        found[get(line, 0) or b""].append(
            StepRead(
                scope=_text(get(line, 1)),
                step_id=read_int(get(line, 2) or b"\0"),
                attempt=read_int(get(line, 3) or b"\0"),
                sequence=read_int(get(line, 4) or b"\0"),
                outcome=_text(get(line, 5)),
                result=get(line, 6),
                nondeterministic=get(line, 7),
                retry_in_ms=read_int(get(line, 8) or b"\0"),
            )
        )
    return found


def _signals(answer: PGresult) -> dict[bytes, list[SignalRead]]:
    found: dict[bytes, list[SignalRead]] = defaultdict(list)
    get = answer.get_value
    for line in range(answer.ntuples):
        signal = SignalRead(_text(get(line, 1)), _text(get(line, 2)), get(line, 3) or b"null")
        found[get(line, 0) or b""].append(signal)
    return found


def _intents(answer: PGresult) -> dict[bytes, list[IntentRead]]:
    found: dict[bytes, list[IntentRead]] = defaultdict(list)
    get = answer.get_value
    for line in range(answer.ntuples):
        outcome = get(line, 5)
        intent = IntentRead(
            scope=_text(get(line, 1)),
            step_id=read_int(get(line, 2) or b"\0"),
            attempt=read_int(get(line, 3) or b"\0"),
            token=read_int(get(line, 4) or b"\0"),
            outcome=None if outcome is None else outcome.decode(),
        )
        found[get(line, 0) or b""].append(intent)
    return found


