"""Whether what each process wrote is whole, its own, and of the time in which that process lived."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import pandas as pd

from ninelives_rig.checkers.base import Checker, Problems
from ninelives_rig.checkers.facts import Facts
from ninelives_rig.evidence.columns import EFFECT_KINDS, EVENTS, PHASES
from ninelives_rig.evidence.spec import FAULT_EVENTS
from ninelives_rig.verdict import Finding, Status

UNSURE = Status.INCONCLUSIVE
_COORDINATOR = "coordinator"
_FAULTS = tuple(event for told in FAULT_EVENTS.values() for event in (told.begun, told.over) if event)
_CLOSING = ("node.closed", "node.struck")
# Before the first event a folder is made; behind the last one, the tables of all flows are copied.
_IDLE_NS_MAX = 600 * 1_000_000_000
# As many effects as a node may have in the moment in which it is struck beside its loop.
_MOMENT_MAX = 64
_ASKED = {"start.ok": "start.invoke", "signal.ok": "signal.invoke", "pause.ok": "pause.invoke"}
_ASKED |= {"resume.ok": "resume.invoke"}


def check_records(facts: Facts) -> list[Finding]:
    """Find lines that are missing, at their end too, lines of nobody, and lines of a time that cannot be."""
    problems = Problems("records")
    problems.add("gap", UNSURE, "{n} histories or the sink lost lines.", [*_gaps(facts), *_sink_gaps(facts)])
    problems.add("unclosed", UNSURE, "{n} processes have no closing line where one must be.", _unclosed(facts))
    problems.add("miscounted", UNSURE, "{n} processes closed over another number of lines.", _miscounted(facts))
    problems.add("stranger", UNSURE, "{n} records are of a process that was not started so.", _strangers(facts))
    problems.add("out_of_time", UNSURE, "{n} records are of a time that cannot be.", _out_of_time(facts))
    problems.add("unknown", UNSURE, "{n} records are of a kind that nobody judges.", _unknown(facts))
    problems.add("unasked", UNSURE, "{n} answers have no question.", _unasked(facts))
    return problems.found


def _gaps(facts: Facts) -> Iterator[str]:
    for process, seqs in facts.arm.history.groupby("process")["seq"]:
        if sorted(seqs) != list(range(1, len(seqs) + 1)):
            yield f"process {process} has {len(seqs)} events, the last with number {seqs.max()}"


def _sink_gaps(facts: Facts) -> Iterator[str]:
    """The sink is written at the end, in the order of time."""
    sink = facts.arm.sink
    if sink["seq"].tolist() != list(range(1, len(sink) + 1)) or not sink["t"].is_monotonic_increasing:
        yield f"the sink has {len(sink)} lines that are not numbered in the order of time"


def _unknown(facts: Facts) -> Iterator[str]:
    history, phases = facts.arm.history, facts.events("phase")["phase"]
    yield from (f"event {name}" for name in sorted(set(history["event"]) - EVENTS))
    yield from (f"phase {name}" for name in phases[~phases.isin(PHASES)])
    kinds = pd.concat([facts.arm.witness["kind"], facts.arm.sink["kind"]]).dropna()
    yield from (f"effect of kind {name}" for name in sorted(set(kinds) - set(EFFECT_KINDS)))
    strangers = set(history["instance_id"].dropna()) - facts.registered - facts.states.keys()
    yield from (f"event of instance_id={one}, which is not registered" for one in sorted(strangers))


def _closings(facts: Facts) -> pd.DataFrame:
    return facts.events(*_CLOSING).drop_duplicates("process", keep="last")


def _unclosed(facts: Facts) -> Iterator[str]:
    """A node closes its books when it ends in order, and when it strikes itself down at a boundary."""
    history = facts.arm.history
    last = history.loc[history.groupby("process")["seq"].idxmax()].set_index("process")["event"]
    how = {-9: "node.struck", 0: "node.closed"}
    strokes = facts.events("node.struck")["process"].tolist()
    for child, pid, start_time in _started(facts):
        exitcode = facts.exits.get((pid, start_time))
        closed = how.get(exitcode) if exitcode is not None else None
        if pid in _struck_beside(facts) and child in strokes:
            continue
        if closed and last.get(child) != closed:
            yield f"process={child} exit={exitcode} last event={last.get(child, 'none')}"
    if len(strokes) > len(set(strokes)):
        yield "a process was struck twice"


def _struck_beside(facts: Facts) -> frozenset[int]:
    """Who died at a boundary of no instance: a thread beside the loop struck, and the loop went on for a moment."""
    return frozenset(kill.pid for kill in facts.kills if kill.instance_id is None)


def _started(facts: Facts) -> Iterator[tuple[str, int, int]]:
    starts = facts.starts
    for child, pid, start in zip(starts["child"], starts["child_pid"], starts["child_start_time"], strict=True):
        yield str(child), int(pid), int(start)


def _miscounted(facts: Facts) -> Iterator[str]:
    written = facts.arm.witness.groupby("process").size()
    closings = _closings(facts)
    beside = _struck_beside(facts)
    for process, pid, effects in zip(closings["process"], closings["pid"], closings["effects"], strict=True):
        more = pd.isna(effects) or written.get(process, 0) - effects
        if more and not (pid in beside and 0 < more <= _MOMENT_MAX):
            yield f"process {process} closed over {effects} effects and has {written.get(process, 0)}"
    told = int((facts.arm.history["process"] == _COORDINATOR).sum())
    if facts.spec.ended_t and facts.spec.coordinator_events != told:
        yield f"the coordinator told {facts.spec.coordinator_events} events and has {told}"


def _strangers(facts: Facts) -> Iterator[str]:
    """Compare process, pid and start time wherever they stand with the coordinator's word of whom it started."""
    pids = {child: (pid, start_time) for child, pid, start_time in _started(facts)}
    roles = dict(zip(facts.starts["child"], facts.starts["role"], strict=True))
    arm = facts.arm
    own = arm.history.loc[arm.history["process"] == _COORDINATOR, "pid"].unique()
    known = {(_COORDINATOR, int(pid)) for pid in own} if len(own) == 1 else set()
    known |= {(child, pid) for child, (pid, _) in pids.items()}
    for frame in (arm.history, arm.witness, arm.sink, arm.receipts):
        for process, pid in sorted(set(zip(frame["process"], frame["pid"], strict=True)) - known):
            yield f"process={process} pid={pid}"
    if "ledger" in arm.tables:
        yield from (f"pid={pid} in the ledger" for pid in sorted(set(arm.tables["ledger"]["pid"]) - facts.roles.keys()))
    for process, role in zip(arm.receipts["process"], arm.receipts["role"], strict=True):
        if roles.get(process) != role:
            yield f"process={process} role={role} started as {roles.get(process, 'nothing')}"
    children = facts.events("process.started", "process.exited")
    for child, pid, start_time in zip(
        children["child"], children["child_pid"], children["child_start_time"], strict=True
    ):
        if pids.get(child) != (pid, start_time):
            yield f"child={child} pid={pid} start_time={start_time}, started as {pids.get(child, 'nothing')}"
    others = facts.events(*_FAULTS).dropna(subset=["child"])
    for child, pid in zip(others["child"], others["child_pid"], strict=True):
        if child not in pids or pids[child][0] != pid:
            yield f"child={child} pid={pid} was never started"


def _lives(facts: Facts) -> dict[int, tuple[float, float]]:
    """Return from when to when each process can have written, by pid; the receipt is a process's last word but one."""
    spec = facts.spec
    end = spec.ended_t or math.inf
    lives: dict[int, tuple[float, float]] = {}
    for pid, t in zip(facts.starts["child_pid"], facts.starts["t"], strict=True):
        lives[int(pid)] = (int(t), end)
    exits = facts.events("process.exited").dropna(subset=["child_pid"])
    for pid, t in zip(exits["child_pid"], exits["t"], strict=True):
        lives[int(pid)] = (lives.get(int(pid), (spec.started_t, end))[0], int(t))
    own = facts.arm.history.loc[facts.arm.history["process"] == _COORDINATOR, "pid"]
    return lives | {int(pid): (spec.started_t, end) for pid in own.unique()}


def _out_of_time(facts: Facts) -> Iterator[str]:
    arm, lives = facts.arm, _lives(facts)
    spec = facts.spec
    told = arm.history.loc[arm.history["process"] == _COORDINATOR, "t"]
    if spec.ended_t and len(told):
        idle = max(told.min() - spec.started_t, spec.ended_t - told.max())
        if idle > _IDLE_NS_MAX or spec.ended_t < spec.started_t:
            yield f"the arm from {spec.started_t} to {spec.ended_t}, and the coordinator {idle} ns before or behind it"
    frames = {"event": arm.history, "effect": arm.witness, "sink": arm.sink, "receipt": arm.receipts}
    if "ledger" in arm.tables:
        frames["ledger"] = arm.tables["ledger"].assign(t=lambda rows: rows["t_us"] * 1000 + 999, process="ledger")
    for what, frame in frames.items():
        first, last = (frame["pid"].map(lambda pid, at=at: lives.get(pid, (0, math.inf))[at]) for at in (0, 1))
        wrong = frame[(frame["t"] < first) | (frame["t"] > last + 1000)]
        yield from _shown(what, wrong)
    # A node tells and acts from one thread; the coordinator from two.
    events = arm.history[(arm.history["process"] != _COORDINATOR) & ~arm.history["pid"].isin(_struck_beside(facts))]
    for what, frame in (("event", events), ("effect", arm.witness)):
        ordered = frame.sort_values(["process", "seq"], kind="stable")
        yield from _shown(what, ordered[ordered["t"] < ordered.groupby("process")["t"].cummax()])
    yield from _after_death(facts)


def _after_death(facts: Facts) -> Iterator[str]:
    """Who wrote a receipt had done all else before it, but for the closing line."""
    deaths = {kill.pid: kill.t for kill in facts.kills if kill.proved and kill.pid not in _struck_beside(facts)}
    for what, frame in (("event", facts.arm.history), ("effect", facts.arm.witness), ("sink", facts.arm.sink)):
        t = frame["pid"].map(lambda pid: deaths.get(pid, math.inf))
        late = frame["t"] > t
        closing = frame["event"] == "node.struck" if "event" in frame else late & False
        yield from _shown(what, frame[late & ~closing])
        yield from _shown("closing", frame[closing & ~late & (t < math.inf)])


def _shown(what: str, frame: pd.DataFrame) -> Iterable[str]:
    return (f"{what} of {process} at t={t}" for process, t in zip(frame["process"], frame["t"], strict=True))


def _unasked(facts: Facts) -> Iterator[str]:
    for answer, question in _ASKED.items():
        key = ["process", "instance_id", "signal_id"]
        asked = facts.events(question).fillna({"signal_id": ""}).groupby(key)["t"].min()
        for row in facts.events(answer).fillna({"signal_id": ""})[[*key, "t"]].itertuples(index=False, name=None):
            if not asked.get(row[:3], math.inf) <= row[3]:
                yield f"{answer} of instance_id={row[1]} to {row[0]}"


CHECKERS = (
    Checker(
        "records",
        "What each process wrote is whole, its own, and of its time.",
        ("gap", "unclosed", "miscounted", "stranger", "out_of_time", "unknown", "unasked"),
        check_records,
    ),
)
