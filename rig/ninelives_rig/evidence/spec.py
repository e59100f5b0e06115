"""What ``arm.json`` declares of an arm, checked field by field."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

EFFECTS = ("idempotent", "at_most_once", "transactional")
RUN_KEYS = ("campaign", "engine", "seed", "commit", "dirty", "started_at", "arms")
"""What every arm repeats of its manifest, so that neither can be exchanged or shortened alone."""


@dataclass(frozen=True)
class FaultEvents:
    """How the history tells of one kind of fault: that it began and, for what lasts, that it is over.

    ``shows`` and ``over_shows`` are what the proofs of both must say (regular expressions), so that a fault that was
    told of and never inflicted is found out.
    """

    begun: str
    over: str | None = None
    shows: str = ".+"
    over_shows: str = ".+"


_DROPPED = r"[1-9]\d* bytes dropped, \d+ bytes held"
_HELD = r"\d+ bytes dropped, [1-9]\d* bytes held"
_LONG = r"[a-z ]+ for [\d.]*[1-9][\d.]* s"
_BACK = "it accepts connections and is the same cluster"
_SEEN = "in a new connection"

FAULT_EVENTS: Mapping[str, FaultEvents] = {
    "terminate": FaultEvents("process.terminated", None, "SIGTERM sent"),
    "bury": FaultEvents("process.buried", None, "its session is marked dead"),
    # X is a process that has died meanwhile.
    "freeze": FaultEvents("process.frozen", "process.thawed", "SIGSTOP sent", "was in state [TX]"),
    "starve": FaultEvents("process.starved", "process.fed", rf"asked to hold {_LONG}", rf"held {_LONG}"),
    "block": FaultEvents("process.blocked", "process.unblocked", rf"asked to sleep {_LONG}", rf"slept {_LONG}"),
    "cut": FaultEvents("line.cut", "line.joined", "to_server and to_node dropped", _DROPPED),
    "deafen": FaultEvents("line.deafened", "line.heard", "to_node dropped", _DROPPED),
    "delay": FaultEvents("line.held", "line.delivered", "to_server and to_node held", _HELD),
    "crash": FaultEvents(
        "server.crashed", "server.recovered", r"postmaster exited with -9, and [1-9]\d* processes with it", _BACK
    ),
    "restart": FaultEvents("server.stopped", "server.started", r"process \d+ is gone", _BACK),
    "freeze-server": FaultEvents(
        "server.frozen", "server.thawed", r"[1-9]\d* of \d+ processes are in state T", "were in the states TT+X*"
    ),
    "read-only": FaultEvents("server.read_only", "server.writable", rf"\w+ is on {_SEEN}", rf"\w+ is off {_SEEN}"),
    "impatient": FaultEvents("server.impatient", "server.patient", rf"\w+ is 3ms {_SEEN}", rf"\w+ is 0 {_SEEN}"),
    "end-backends": FaultEvents("backends.ended", None, r"[1-9]\d* of \d+ backends of nodes ended"),
    "hold-snapshot": FaultEvents(
        "snapshot.held", "snapshot.released", r"snapshot [\d:,]+ is held by backend \d+", r"still saw [\d:,]+"
    ),
    "take-connections": FaultEvents(
        "connections.taken",
        "connections.given",
        r"\d+ connections taken, then: .*(too many clients|connection slots|too many connections).*",
        r"\d+ connections given back",
    ),
}
"""Every fault that a campaign can plan for the coordinator to inflict."""


class BundleUnreadable(Exception):
    """The bundle, or one arm of it, is not there or not what it says; the text names the file and what to
    do.
    """


@dataclass(frozen=True)
class ArmSpec:
    """What ``arm.json`` declares. ``tokens`` and ``intents`` count only for an engine with a journal or tokens.

    ``waits`` are the steps that wait for a signal and have no effect. ``faults`` says how many of each further
    fault were planned, by the event that tells of one. ``run`` is the manifest's identity as this arm repeats it.
    """

    name: str
    effect: str
    position: str
    steps: tuple[tuple[int, str], ...]
    flows: int
    kills_planned: int
    journal: bool
    tokens: bool
    intents: bool
    expect: Mapping[str, int]
    states: tuple[str, ...]
    sequential: bool
    converged: bool
    progressing: bool
    settings: Mapping[str, Any]
    waits: tuple[int, ...] = ()
    features: frozenset[str] = frozenset()
    pauses: bool = False
    faults: Mapping[str, int] = field(default_factory=dict)
    fault: str = "kill"
    lost_answers: frozenset[str] = frozenset()
    boundaries: frozenset[str] = frozenset()
    restarts: int = 0
    deadlocks: int = 0
    idle_in_transaction: int = 0
    service_s: float | None = None
    started_t: int = 0
    ended_t: int = 0
    coordinator_events: int | None = None
    run: Mapping[str, Any] | None = None

    @property
    def step_ids(self) -> tuple[int, ...]:
        """The step ids of the flow in plan order."""
        return tuple(step_id for step_id, _ in self.steps)


def _field(spec: Mapping[str, Any], name: str, kind: type, shown: str) -> Any:
    value = spec.get(name)
    if type(value) is not kind or (isinstance(value, int) and value < 0):
        raise BundleUnreadable(f"{shown}: {name} is {value!r}, not {_EXPECTED[kind]}; run the campaign again")
    return value


_EXPECTED = {int: "a count", str: "a text", bool: "true or false", list: "a list", dict: "an object"}
_DURATIONS = ("ttl_s", "converge_timeout_s", "service_s")
_COUNTS = ("workers", "recovery_nodes", "in_flight", "flows_max", "recovery_flows_max", "takeovers_max", "restarts")
_SETTINGS = ("workers", "recovery_nodes", "in_flight", "flows_max", "ttl_s", "converge_timeout_s")


def _check_numbers(raw: Mapping[str, Any], shown: str) -> None:
    """Refuse what is there and is no amount: a duration that is negative, infinite or no number compares as anything.

    Not every engine's arm has all of them.
    """
    for name in _DURATIONS:
        value = raw.get(name)
        if value is not None and not (type(value) in (int, float) and math.isfinite(value) and value >= 0):
            raise BundleUnreadable(f"{shown}: {name} is {value!r}, not a number of seconds; run the campaign again")
    for name in _COUNTS:
        value = raw.get(name)
        if value is not None and (type(value) is not int or value < 0):
            raise BundleUnreadable(f"{shown}: {name} is {value!r}, not a count; run the campaign again")


def _texts(raw: Mapping[str, Any], name: str, shown: str) -> tuple[str, ...]:
    value = raw.get(name) or []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise BundleUnreadable(f"{shown}: {name} is {value!r}, not a list of names; run the campaign again")
    return tuple(value)


def _steps(raw: Mapping[str, Any], shown: str) -> tuple[tuple[int, str], ...]:
    steps = []
    for step in _field(raw, "steps", list, shown):
        if not isinstance(step, dict):
            raise BundleUnreadable(f"{shown}: a step is {step!r}, not an object; run the campaign again")
        _check_numbers(step, shown)
        if step.get("kind", "step") not in ("step", "signal"):
            raise BundleUnreadable(f"{shown}: a step is of kind {step['kind']!r}, not step or signal")
        steps.append((_field(step, "step_id", int, shown), _field(step, "name", str, shown)))
    if not steps:
        raise BundleUnreadable(f"{shown}: steps is empty, so there is nothing to judge")
    if len(set(steps)) != len({step_id for step_id, _ in steps}) or len(set(steps)) != len(steps):
        raise BundleUnreadable(f"{shown}: two steps share their number; run the campaign again")
    return tuple(steps)


def parse_arm_spec(raw: Any, shown: str) -> ArmSpec:
    """Check the content of an ``arm.json``; ``BundleUnreadable`` names the field that is wrong."""
    if not isinstance(raw, dict):
        raise BundleUnreadable(f"{shown} is not an object; run the campaign again")

    def get(name: str, kind: type) -> Any:
        return _field(raw, name, kind, shown)

    if get("effect", str) not in EFFECTS:
        raise BundleUnreadable(f"{shown}: effect {raw['effect']!r} is not one of {', '.join(EFFECTS)}")
    has = get("capabilities", dict)
    expect = raw.get("expect") or {}
    if not isinstance(expect, dict) or any(type(value) is not int for value in expect.values()):
        raise BundleUnreadable(f"{shown}: expect must map names to integers")
    _check_numbers(raw, shown)
    steps = _steps(raw, shown)
    run = raw.get("run")
    return ArmSpec(
        name=get("name", str),
        effect=raw["effect"],
        position=get("position", str),
        steps=steps,
        flows=get("flows", int),
        kills_planned=get("kills_planned", int),
        journal=_field(has, "journal", bool, shown),
        tokens=_field(has, "tokens", bool, shown),
        intents=_field(has, "intents", bool, shown),
        expect=expect,
        states=_texts(raw, "states", shown) or ("Completed",),
        sequential=raw.get("sequential", True) is True,
        converged=get("converged", bool),
        progressing=get("progressing", bool),
        settings={name: raw.get(name) for name in _SETTINGS},
        waits=tuple(step["step_id"] for step in raw["steps"] if step.get("kind") == "signal"),
        features=frozenset(_texts(raw, "features", shown)),
        pauses=raw.get("pauses", False) is True,
        faults=_faults(raw, shown),
        fault=_fault(raw),
        lost_answers=frozenset(_texts(raw, "lost_answers", shown)),
        boundaries=frozenset(_texts(raw, "boundaries", shown)),
        restarts=get("restarts", int),
        deadlocks=get("deadlocks", int),
        idle_in_transaction=get("idle_in_transaction", int),
        service_s=raw["steps"][0].get("service_s"),
        started_t=get("started_t", int),
        ended_t=get("ended_t", int),
        coordinator_events=raw.get("coordinator_events"),
        run=run if isinstance(run, dict) else None,
    )


LOST_ANSWER = "answer.lost"


def _fault(raw: Mapping[str, Any]) -> str:
    """Name what the arm is about: its disturbances, else the answers that it loses, else kills."""
    return " ".join(sorted(raw.get("disturbances") or {})) or ("lost-answers" if raw.get("lost_answers") else "kill")


def _faults(raw: Mapping[str, Any], shown: str) -> dict[str, int]:
    """Return how many events of each kind the planned disturbances lead to, at least."""
    planned = raw.get("disturbances") or {}
    if not isinstance(planned, dict) or any(type(count) is not int or count < 0 for count in planned.values()):
        raise BundleUnreadable(f"{shown}: disturbances must map names to counts")
    unknown = ", ".join(sorted(planned.keys() - FAULT_EVENTS.keys()))
    if unknown:
        raise BundleUnreadable(f"{shown}: nobody knows the disturbances {unknown}")
    faults: dict[str, int] = {FAULT_EVENTS[name].begun: count for name, count in planned.items()}
    return faults | ({LOST_ANSWER: 1} if raw.get("lost_answers") else {})
