"""What reports draw and list beyond the verdict's figures: each kill's consequences, process lives, phases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import orjson

from ninelives_reports.load import ArmView
from ninelives_rig.checkers.accounting import CLASSES
from ninelives_rig.checkers.facts import SIGKILL, Facts, Kill
from ninelives_rig.checkers.recovery import NS_PER_S, Abandoned, Recovery
from ninelives_rig.evidence.spec import FAULT_EVENTS


@dataclass(frozen=True)
class KillStory:
    """A kill and what came of it; times in seconds, ``None`` where it never came.

    ``takeovers_s`` are from the receipt to the next claim of each abandoned instance by another process.
    """

    kill: Kill
    process: str
    at_s: float
    exitcode: int | None
    abandoned: int
    takeovers_s: tuple[float, ...]
    ends_s: tuple[float, ...]


@dataclass(frozen=True)
class Life:
    """A process from its start to its end, in ns; ``killed`` when a proved kill ended it."""

    process: str
    role: str
    pid: int
    begin_t: int
    end_t: int
    killed: bool


@dataclass(frozen=True)
class Phase:
    """A phase of an arm, in ns."""

    name: str
    begin_t: int
    end_t: int


@dataclass(frozen=True)
class FaultSpan:
    """A fault from its beginning to its end, in ns, as the history tells of it; ``process`` is "" for the server's."""

    told: str
    process: str
    begin_t: int
    end_t: int


_LASTING = frozenset(one.begun for one in FAULT_EVENTS.values() if one.over)


def span(facts: Facts) -> tuple[int, int]:
    """Return when the first and the last event of the arm took place, in ns; (0, 1) without a history."""
    times = facts.arm.history["t"]
    return (int(times.min()), max(int(times.max()), int(times.min()) + 1)) if len(times) else (0, 1)


def tell_kills(facts: Facts, recovery: Recovery) -> list[KillStory]:
    """Tell every kill that left a receipt, in the order of time."""
    begin_t, _ = span(facts)
    names = dict(zip(facts.arm.receipts["kill_id"], facts.arm.receipts["process"], strict=True))
    left: dict[str, list[Abandoned]] = defaultdict(list)
    for entry in recovery.abandoned:
        left[entry.kill.kill_id].append(entry)
    takeovers = _takeovers(facts, recovery)
    return [
        KillStory(
            kill=kill,
            process=str(names.get(kill.kill_id, "unknown")),
            at_s=(kill.t - begin_t) / NS_PER_S,
            exitcode=facts.exits.get((kill.pid, kill.start_time)),
            abandoned=len(left[kill.kill_id]),
            takeovers_s=tuple(sorted(takeovers.get(kill.kill_id, ()))),
            ends_s=tuple(
                sorted((e.terminal_t - kill.t) / NS_PER_S for e in left[kill.kill_id] if e.terminal_t is not None)
            ),
        )
        for kill in facts.kills
    ]


def _takeovers(facts: Facts, recovery: Recovery) -> dict[str, list[float]]:
    """Return, by kill, how long each abandoned instance waited for its next claim by another process."""
    claims = facts.claims
    times, pids = claims["t"].to_numpy(dtype=np.int64), claims["pid"].to_numpy(dtype=np.int64)
    places = claims.groupby("instance_id").indices
    found: dict[str, list[float]] = defaultdict(list)
    for entry in recovery.abandoned:
        at = places.get(entry.instance_id)
        if at is None:
            continue
        later = times[at][(times[at] > entry.kill.t) & (pids[at] != entry.kill.pid)]
        if len(later):
            found[entry.kill.kill_id].append((int(later.min()) - entry.kill.t) / NS_PER_S)
    return found


def lives(facts: Facts) -> list[Life]:
    """Return the life of every node that the coordinator started."""
    _, last_t = span(facts)
    deaths = {(kill.pid, kill.start_time): kill.t for kill in facts.kills if kill.proved}
    exits = facts.events("process.exited").dropna(subset=["child_pid", "child_start_time"])
    ends = {
        (int(pid), int(start)): int(t)
        for pid, start, t in zip(exits["child_pid"], exits["child_start_time"], exits["t"], strict=True)
    }
    found = []
    for row in facts.starts.to_dict("records"):
        key = (int(row["child_pid"]), int(row["child_start_time"]))
        end_t = deaths.get(key, ends.get(key, last_t))
        killed = facts.exits.get(key) == SIGKILL
        found.append(Life(str(row["child"]), str(row["role"]), key[0], int(row["t"]), end_t, killed))
    return found


def read_faults(facts: Facts) -> list[FaultSpan]:
    """Return every fault that the coordinator inflicted, in the order of time."""
    _, last_t = span(facts)
    names = {int(pid): str(child) for pid, child in zip(facts.starts["child_pid"], facts.starts["child"], strict=True)}
    return [
        FaultSpan(
            told=fault.kill_id,
            process=names.get(fault.pid, "") if fault.pid else "",
            begin_t=fault.t,
            end_t=fault.over_t if fault.over_t is not None else last_t if fault.kill_id in _LASTING else fault.t,
        )
        for fault in facts.faults
    ]


def read_phases(view: ArmView) -> list[Phase]:
    """Return the phases of the arm as the coordinator told them; none when its history cannot be read."""
    if view.facts is None:
        return []
    try:
        content = (view.folder / "history" / "coordinator.jsonl").read_bytes()
    except OSError:
        return []
    marks = []
    for line in content.split(b"\n"):
        if b'"phase"' not in line:
            continue
        try:
            event = orjson.loads(line)
            marks.append((int(event["t"]), str(event["phase"])))
        except (KeyError, TypeError, ValueError):
            continue
    _, last_t = span(view.facts)
    ends = [t for t, _ in marks[1:]] + [max(last_t, marks[-1][0])] if marks else []
    return [Phase(name, t, end_t) for (t, name), end_t in zip(marks, ends, strict=True)]


def class_counts(view: ArmView) -> Mapping[str, int] | None:
    """Count the effects of each class; None where the evidence cannot be classified."""
    if view.facts is None:
        return None
    try:
        classes = view.facts.classified["class"].value_counts()
    except Exception:  # the checkers say what is wrong with it
        return None
    return {name: int(classes.get(name, 0)) for name in CLASSES}
