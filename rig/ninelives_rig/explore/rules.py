"""The invariants of PROTOCOL.md, judged over everything that was committed in one schedule, and over what was told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ninelives_rig.explore.actor import Hold, Told
from ninelives_rig.explore.picture import Picture

_RESENT = "NL001"
"""A batch that has to go in its careful form: the lane's own way, and no failure."""


def judge(pictures: Sequence[Picture], told: Sequence[Told], hold: Hold | None) -> list[str]:
    """Return what is wrong, each sentence once: ``pictures`` are the start and what each commit made of it."""
    found: list[str] = []
    for picture in pictures:
        found += _in_itself(picture)
        found += _asleep(picture, [one.hold for one in told] + [hold])
    for before, after in pairwise(pictures):
        found += _from_to(before, after)
    for one in told:
        found += _answer(one, pictures)
    found += _in_the_end(pictures, told, hold)
    return list(dict.fromkeys(found))


def _in_itself(now: Picture) -> Iterator[str]:
    if (now.instance is not None and not now.finished) != (now.wake is not None):
        yield "I11: an instance that is not terminal has a wake row, and no other has one"
    sequences = [step["sequence"] for step in now.steps]
    if sequences != list(range(1, len(sequences) + 1)):
        yield f"I12: the sequences are {sequences}"
    if now.instance is not None and now.instance["next_sequence"] != len(sequences) + 1:
        yield f"I12: next_sequence is {now.instance['next_sequence']} behind {len(sequences)} rows"
    if now.instance is not None and now.fence != now.token:
        yield f"R6: the fence is {now.fence}, the lease's token {now.token}"
    steps = {(step["step_id"], step["token"]) for step in now.steps}
    for signal in now.signals:
        consumer = signal["consumed_step_id"], signal["consumed_token"]
        if consumer[0] is not None and consumer not in steps:
            yield f"I4: signal {signal['signal_id']} is consumed by step {consumer[0]}, whose row is not there"
    if len(now.signals) > 1:
        yield "I4: one signal stands in the inbox twice"
    if now.wake is not None and now.instance is not None:
        yield from _wake(now)


def _wake(now: Picture) -> Iterator[str]:
    assert now.wake is not None and now.instance is not None
    if now.wake["holder"] is not None:
        if now.wake["run_at"] is not None:
            yield "a wake that is held has a time"
        if now.lease is None or now.lease["holder"] != now.wake["holder"]:
            yield "the wake's holder is not the lease's"
        return
    if now.paused or now.due:
        return
    caught_up = now.instance["state"] == "Suspended" and now.wake["seq"] == now.wake["seen_seq"]
    if now.wake["run_at"] is None and not caught_up:
        yield f"I13: unheld without a time, {now.instance['state']}, seq {now.wake['seq']}, seen {now.wake['seen_seq']}"


def _asleep(now: Picture, holds: Sequence[Hold | None]) -> Iterator[str]:
    """Find signals of an instance that rests, other than those which its last holder had read and left."""
    if now.wake is None or now.wake["holder"] is not None or now.paused or now.due:
        return
    seen = {signal for one in holds if one is not None and one.token == now.token for signal in one.signals}
    unseen = now.unconsumed - seen
    if unseen:
        yield f"L1: nobody wakes up for signal {', '.join(sorted(unseen))}"


def _from_to(before: Picture, after: Picture) -> Iterator[str]:
    if after.fence < before.fence or after.token < before.token:
        yield f"I8: the token fell from {max(before.fence, before.token)} to {min(after.fence, after.token)}"
    if before.finished and (not after.finished or (before.instance or {})["state"] != (after.instance or {})["state"]):
        yield "I6: a terminal state changed"
    if after.finished and not before.finished and before.paused:
        yield "I9: the instance ended while it was paused"
    yield from _new_token(before, after)
    yield from _new_rows(before, after)
    given_back = before.holder is not None and after.holder is None and before.holder not in after.dead
    if given_back and not after.finished and after.acting != before.token:
        yield f"R3: {after.by}, under token {after.acting}, took the lease of token {before.token} from its holder"
    for session, moment in before.dead.items():
        if after.dead.get(session) != moment or after.expiry[session] != before.expiry[session]:
            yield f"S1: session {session} was dead and lives again"


def _new_token(before: Picture, after: Picture) -> Iterator[str]:
    if after.fence <= before.fence or before.instance is None:
        held_anew = after.holder is not None and before.instance is not None and after.holder != before.holder
        if held_anew and after.fence == before.fence:
            yield f"I8: {after.by} holds the instance under a token that was there before"
        return
    if before.finished:
        yield "I6: an instance that has ended was claimed"
    if before.paused:
        yield "I9: a paused instance was claimed"
    if before.holder is not None:
        yield f"I1: {after.by} claimed the instance from its living holder"


def _new_rows(before: Picture, after: Picture) -> Iterator[str]:
    old = {(step["step_id"], step["attempt"]): step for step in before.steps}
    new = {(step["step_id"], step["attempt"]): step for step in after.steps}
    if any(new.get(key) != step for key, step in old.items()):
        yield "I12: a committed step row changed or vanished"
    for key in new.keys() - old.keys():
        if new[key]["token"] != before.fence:
            yield f"I1: step {key[0]} was committed under token {new[key]['token']}, the fence was {before.fence}"
        if before.finished:
            yield f"I6: step {key[0]} was committed behind the end"
    if before.finished and len(after.signals) > len(before.signals):
        yield "I4: a signal came in behind the end, where nobody will ever see it"
    known = {one["signal_id"]: one for one in after.signals}
    for signal in before.signals:
        again = known.get(signal["signal_id"])
        if again is None or (signal["consumed_step_id"] is not None and again != signal):
            yield f"I4: signal {signal['signal_id']} vanished, or was consumed again"
    intents = {(one["step_id"], one["attempt"]): one for one in before.intents}
    for intent in after.intents:
        earlier = intents.get((intent["step_id"], intent["attempt"]))
        if earlier is None and (intent["token"] != before.fence or before.finished):
            yield f"I1: an intent was accepted under token {intent['token']}, the fence was {before.fence}"
        if earlier is None and before.paused:
            yield "I9: an intent was accepted while the instance was paused"
        if earlier is not None and earlier["outcome"] is not None and earlier["outcome"] != intent["outcome"]:
            yield "I3: the outcome of an intent changed"
        settled = earlier is not None and earlier["outcome"] is None and intent["outcome"] is not None
        if settled and before.holder is not None and after.acting != before.token:
            yield "I3: an intent was settled under the instance's holder"


def _answer(one: Told, pictures: Sequence[Picture]) -> Iterator[str]:
    now = pictures[one.commits]
    last = pictures[-1]
    if one.kind == "refused":
        if one.answer == "40P01":
            yield "L2: the server ended a deadlock"
        elif one.answer != _RESENT:
            yield f"{one.letter} was refused by the server ({one.answer})"
    elif one.kind == "commit":
        rows = [step for step in last.steps if str(step["step_id"]) == one.key and step["token"] == one.token]
        if one.answer == "committed" and not rows:
            yield f"R4: step {one.key} was acknowledged under token {one.token}, and its row is not there"
        if one.answer != "committed" and rows:
            yield f"R4: step {one.key} was answered {one.answer}, and its row is there under its own token"
    elif one.kind == "claim" and one.hold is not None:
        if one.hold.steps != {step["step_id"] for step in now.steps}:
            yield f"I2: {one.letter} claimed and read the steps {sorted(one.hold.steps)} of {len(now.steps)}"
    elif one.kind == "start" and one.answer not in ("started", "held", "exists"):
        yield f"a start was answered {one.answer}"
    elif one.kind == "renew" and one.answer == "alive" and 1 in now.dead:
        yield "S1: the heartbeat of a dead session was accepted"
    elif one.kind in ("park", "release") and one.answer == "not holder" and (now.holder, now.token) == (1, one.token):
        yield f"{one.letter} holds the instance and was told that it does not"
    if one.answer == "fenced" and now.fence <= one.token:
        yield f"{one.letter} was fenced under the newest token"


def _in_the_end(pictures: Sequence[Picture], told: Sequence[Told], hold: Hold | None) -> Iterator[str]:
    first, last = pictures[0], pictures[-1]
    accepted = [one for one in told if one.kind == "signal" and one.answer in ("accepted", "buffered")]
    if len(accepted) + len(first.signals) > 1:
        yield "I4: one signal was accepted twice"
    if accepted and not last.signals:
        yield "I4: an accepted signal is not there"
    started = [one for one in told if one.kind == "start" and one.answer in ("started", "held")]
    if len(started) + (first.instance is not None) > 1:
        yield "one instance was started twice"
    tokens = [one.token for one in told if one.kind == "claim" and one.token]
    if len(set(tokens)) != len(tokens):
        yield f"I8: a token was issued twice: {tokens}"
    if last.holder is not None:
        yield from _holder(last, [one.hold for one in told if one.hold is not None] + [hold])


def _holder(last: Picture, holds: Sequence[Hold | None]) -> Iterator[str]:
    mine = [one for one in holds if one is not None and (one.session, one.token) == (last.holder, last.token)]
    if not mine:
        yield f"L1: session {last.holder} holds the instance under token {last.token} and was never told"
    assert last.wake is not None
    for one in mine:
        if last.wake["seq"] == one.seq and not last.unconsumed <= one.signals and not last.paused:
            yield f"L1: the holder parks with seq {one.seq} and never sees {', '.join(sorted(last.unconsumed))}"
