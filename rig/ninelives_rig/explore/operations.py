"""The operations that are run against each other: the store's own functions, called as nodes and clients call them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from uuid import UUID

from ninelives.store.claims import Limits
from ninelives.store.rows import Claimed, Finish, Intend, Park, Release, Start, StepCommit, Verdict
from ninelives.wire import Statement
from ninelives_rig.explore.actor import CHANNEL, Actor, Hold

INSTANCE = UUID(int=0x9)
HOLDER_SESSION = 1
FLOW, VERSION = "explored", "1"
DOUBTFUL_STEP = 8
"""The step whose intent the state `doubt` leaves open."""

Operation = Callable[[Actor], Awaitable[None]]

_ID = INSTANCE.bytes
_LIMITS = Limits(due=10, orphaned=10, suspicious_claims=1000, suspects=1)
_TURNS_MAX = 4


def _future() -> asyncio.Future[str]:
    return asyncio.get_running_loop().create_future()


def _held(actor: Actor) -> Hold:
    assert actor.hold is not None, "this operation belongs to a holder, and the state has none"
    actor.token = actor.hold.token
    return actor.hold


def step(actor: Actor, step_id: int, *, finish: bytes | None = None, signal_id: str | None = None) -> StepCommit:
    """Make the commit of one step under the lease that the actor has."""
    row = StepCommit(
        _ID, _held(actor).token, _future(), b"", step_id, 1, b"pay", b"1", b"Success", b"1", None, 3
    )  # fmt: skip
    row.finish, row.finish_result = finish, (b"1" if finish else None)
    row.signal_id = signal_id.encode() if signal_id else None
    return row


async def _write_step(actor: Actor, row: StepCommit) -> str:
    verdict = await actor.write(row)
    actor.tell("commit", verdict, token=row.token, key=str(row.step_id))
    return verdict


async def first(actor: Actor) -> None:
    """The first step of the holder, with which most states begin."""
    await _write_step(actor, step(actor, 1))


async def commit(actor: Actor) -> None:
    """The second step of the holder."""
    await _write_step(actor, step(actor, 2))


async def commit_end(actor: Actor) -> None:
    """The last step of the holder, which ends the instance."""
    await _write_step(actor, step(actor, 2, finish=b"Completed"))


async def consume(actor: Actor) -> None:
    """The step of the holder that consumes the signal which it has read."""
    await _write_step(actor, step(actor, 2, signal_id="s1"))


async def finish(actor: Actor) -> None:
    """The end without a step row."""
    row = Finish(_ID, _held(actor).token, _future(), b"Failed", b"{}")
    actor.tell("finish", await actor.write(row), token=row.token)


async def intend(actor: Actor) -> None:
    """The announcement of an at_most_once effect."""
    await _announce(actor, 3)


async def doubtful(actor: Actor) -> None:
    """The announcement of an effect that nobody ever hears of."""
    await _announce(actor, DOUBTFUL_STEP)


async def _announce(actor: Actor, step_id: int) -> None:
    row = Intend(_ID, _held(actor).token, _future(), b"", step_id, 1, b"key")
    actor.tell("intend", await actor.write(row), token=row.token, key=str(step_id))


async def park(actor: Actor) -> None:
    """The rest of a holder that has nothing to do."""
    await _rest(actor)


async def _rest(actor: Actor) -> str:
    hold = _held(actor)
    row = Park(_ID, hold.token, _future(), hold.seq, -1)
    verdict = await actor.write(row)
    actor.tell("park", verdict, token=row.token)
    if verdict == "again":
        actor.learn(seq=row.current_seq)
    return verdict


async def release(actor: Actor) -> None:
    """The holder gives its lease back."""
    row = Release(_ID, _held(actor).token, _future())
    actor.tell("release", await actor.write(row), token=row.token)


async def commit_park(actor: Actor) -> None:
    """A commit that is sent again on a new connection, and what its activation does then."""
    if await _write_step(actor, step(actor, 2)) == Verdict.COMMITTED:
        await _rest(actor)


def stale(operation: Operation) -> Operation:
    """Return the operation of an older activation of the holder's session, under the token that it had."""

    async def run(actor: Actor) -> None:
        hold = _held(actor)
        actor.hold = Hold(hold.session, hold.token - 1, hold.seq)
        await operation(actor)
        actor.hold = hold

    return run


async def claim(actor: Actor) -> None:
    """A node takes what is due, and reads it."""
    await _claim(actor)


async def _claim(actor: Actor) -> Claimed | None:
    taken = await actor.control.claim(actor.session, [actor.plan_id], _LIMITS)
    if not taken:
        actor.tell("claim", "nothing" if taken is not None else "no answer")
        return None
    (one,) = taken
    actor.token = one.token
    steps = frozenset(row.step_id for row in one.steps)
    actor.hold = Hold(actor.session, one.token, one.seq, _signals(one), steps)
    actor.tell("claim", "claimed", token=one.token, hold=actor.hold)
    return one


def _signals(claimed: Claimed) -> frozenset[str]:
    return frozenset(signal.signal_id for signal in claimed.signals)


async def turn(actor: Actor) -> None:
    """A node claims, consumes the signals that it finds, and parks when none is left."""
    claimed = await _claim(actor)
    if claimed is not None:
        await _go_on(actor, claimed)


async def born(actor: Actor) -> None:
    """A node starts the instance with its lease, and goes on as with a claim."""
    row = await _start(actor, hold=True)
    if row.token:
        claimed = Claimed(_ID, actor.plan_id, row.token, 0, 1, "Running", b"{}", None, -1, False)
        await _go_on(actor, claimed)


async def _go_on(actor: Actor, claimed: Claimed) -> None:
    for number in range(_TURNS_MAX):
        for signal in claimed.signals:
            await _write_step(actor, step(actor, 20 + number, signal_id=signal.signal_id))
        if await _rest(actor) != "again":
            return
        claimed = await actor.control.read(claimed)
        actor.learn(signals=_signals(claimed))


async def signal(actor: Actor) -> None:
    """A client sends a signal; every sender of an exploration sends the same one."""
    actor.tell("signal", await actor.control.signal(_ID, "s1", "go", b"1"), key="s1")


async def start(actor: Actor) -> None:
    """A client starts the instance durably."""
    await _start(actor, hold=False)


async def start_held(actor: Actor) -> None:
    """A node starts the instance with its lease."""
    await _start(actor, hold=True)


async def _start(actor: Actor, *, hold: bool) -> Start:
    row = Start(_ID, _future(), actor.plan_id, FLOW.encode(), VERSION.encode(), b"{}", 0, hold)
    verdict = await actor.write(row)
    if row.token:
        actor.token = row.token
        # What was sent before the start is not read with it: seq 0 lets the first park look.
        actor.hold = Hold(actor.session, row.token, 0)
    actor.tell("start", verdict, token=row.token, hold=actor.hold)
    return row


async def pause(actor: Actor) -> None:
    """An operator pauses the instance."""
    actor.tell("pause", await actor.control.pause(_ID) or "nothing")


async def resume(actor: Actor) -> None:
    """An operator resumes the instance."""
    actor.tell("resume", await actor.control.resume(_ID) or "nothing")


async def settle(actor: Actor) -> None:
    """An operator settles the intent in doubt."""
    settled = await actor.control.settle(_ID, "", DOUBTFUL_STEP)
    actor.tell("settle", "settled" if settled else "nothing", key=str(DOUBTFUL_STEP))


async def void(actor: Actor) -> None:
    """The holder closes the intent in doubt, whose key the sink refuses from now on."""
    done = await actor.control.void(_ID, _held(actor).token, "", DOUBTFUL_STEP, 1)
    actor.tell("void", "done" if done else "not done", token=actor.token, key=str(DOUBTFUL_STEP))


RENEW: tuple[bytes, ...] = (b"session_renew",)
DECLARE_DEAD: tuple[bytes, ...] = (b"session_await_death", b"session_declare_dead", b"start_notify")
"""What threads of a node send through plain psycopg; a test holds these lists against the code that does."""

_TTL_MS = 24 * 3600 * 1000
_PARAMETERS: Mapping[bytes, tuple[str, ...]] = {
    b"session_renew": (str(HOLDER_SESSION), str(_TTL_MS)),
    b"session_await_death": (str(HOLDER_SESSION),),
    b"session_declare_dead": (str(HOLDER_SESSION),),
    b"start_notify": (CHANNEL,),
}


def _texts(blocks: tuple[bytes, ...]) -> list[Statement]:
    return [(block, [value.encode() for value in _PARAMETERS[block]]) for block in blocks]


async def renew(actor: Actor) -> None:
    """The heartbeat of the holder's session."""
    (answer,) = await actor.ask_texts(_texts(RENEW))
    actor.tell("renew", "alive" if answer.ntuples else "dead")


async def die(actor: Actor) -> None:
    """The holder's session is declared dead by its neighbour."""
    results = await actor.ask_texts(_texts(DECLARE_DEAD))
    actor.tell("die", "dead" if results[1].ntuples else "nothing")


OPERATIONS: Mapping[str, Operation] = {
    "first": first,
    "doubtful": doubtful,
    "commit": commit,
    "commit-end": commit_end,
    "consume": consume,
    "commit-park": commit_park,
    "finish": finish,
    "intend": intend,
    "park": park,
    "release": release,
    "void": void,
    "stale-commit": stale(commit),
    "stale-consume": stale(consume),
    "stale-park": stale(park),
    "stale-release": stale(release),
    "claim": claim,
    "turn": turn,
    "born": born,
    "signal": signal,
    "start": start,
    "start-held": start_held,
    "pause": pause,
    "resume": resume,
    "settle": settle,
    "renew": renew,
    "die": die,
}

HOLDERS = frozenset(
    ["commit", "commit-end", "consume", "commit-park", "finish", "intend", "park", "release", "void"]
)
"""Operations of one activation, which sends them one behind the other: two different ones never meet."""
