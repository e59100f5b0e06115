"""A bundle of evidence, loaded: the manifest, and each arm's files as frames. Reads files, judges nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pandas as pd

from ninelives_rig.evidence.seal import SealReport, verify
from ninelives_rig.evidence.tables import (
    Column,
    Damage,
    Reading,
    build_records,
    flag,
    number,
    read_csv,
    read_jsonl,
    text,
)

EFFECTS = ("idempotent", "at_most_once", "transactional")
SINK_NAME = "sink.jsonl"

_STEP_KEY = (
    text("instance_id"),
    text("scope", blank=True, required=False),
    number("step_id"),
    number("attempt"),
)
_HISTORY = (
    number("t"),
    text("process"),
    number("pid"),
    text("event"),
    text("instance_id", required=False),
    number("token", required=False),
    flag("takeover", required=False),
    text("state", required=False),
    text("child", required=False),
    text("role", required=False),
    number("child_pid", required=False),
    number("child_start_time", required=False),
    number("exitcode", required=False),
    text("signal_id", required=False),
)
_INSTANCES = (number("index"), text("instance_id"), text("started_by"))
_SCHEDULE = (
    text("kill_id"),
    text("instance_id", required=False),
    number("step_id", required=False),
    text("boundary"),
    text("position"),
)
_RECEIPT = (
    text("kill_id"),
    number("t"),
    text("process"),
    number("pid"),
    number("start_time"),
    text("instance_id", required=False),
    text("scope", blank=True, required=False),
    number("step_id", required=False),
    number("attempt", required=False),
    number("token", required=False),
    text("boundary"),
)


def _witness_columns(tokens: bool) -> tuple[Column, ...]:
    return (
        number("t"),
        number("seq", required=False),
        text("process"),
        number("pid"),
        *_STEP_KEY,
        number("token", required=tokens),
        text("kind", required=False),
        text("key", required=False),
    )


def _table_columns(spec: ArmSpec) -> dict[str, tuple[Column, ...]]:
    """Return the tables that this arm must bring, with the columns that judging reads."""
    if not spec.journal:
        return {"instance": (text("instance_id"), text("state"))}
    token = number("token", required=spec.tokens)
    tables: dict[str, tuple[Column, ...]] = {
        "instance": (text("instance_id"), text("state")),
        "step": (*_STEP_KEY, number("sequence", required=spec.tokens), token, text("outcome")),
    }
    if spec.tokens:
        tables["instance"] += (flag("paused"), number("fence"), number("next_sequence"))
        tables["lease"] = (text("instance_id"), token)
        tables["wake"] = (
            text("instance_id"),
            number("seq"),
            number("seen_seq"),
            text("run_at", required=False),
            text("holder", required=False),
        )
    if spec.tokens and "versions" in spec.features:
        tables["instance"] += (text("flow_version"),)
        tables["step"] += (text("capability_version"),)
    if spec.tokens and "bury" in spec.features:
        tables["session"] = (text("session_id"), text("expires_at"), text("dead_at", required=False))
    if spec.waits:
        tables["signal"] = (
            text("instance_id"),
            text("signal_id"),
            text("name"),
            number("consumed_step_id", required=False),
        )
    if spec.intents:
        tables["intent"] = (
            *_STEP_KEY,
            token,
            number("doubted_token", required=False),
            text("outcome", required=False),
        )
    if spec.effect == "transactional":
        tables["ledger"] = (number("t_us"), *_STEP_KEY, token, number("pid"))
    return tables


class BundleUnreadable(Exception):
    """The bundle, or one arm of it, is not there or not what it says; the text names the file and what to
    do.
    """


@dataclass(frozen=True)
class ArmSpec:
    """What ``arm.json`` declares. ``tokens`` and ``intents`` count only for an engine with a journal or tokens.

    ``waits`` are the steps that wait for a signal and have no effect. ``faults`` says how many of each further
    fault were planned, by the event that tells of one.
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

    @property
    def step_ids(self) -> tuple[int, ...]:
        """The step ids of the flow in plan order."""
        return tuple(step_id for step_id, _ in self.steps)


@dataclass(frozen=True)
class Arm:
    """One arm's evidence. ``damage`` is what could not be read; ``tails`` are lines cut short, by file."""

    spec: ArmSpec
    instances: pd.DataFrame
    schedule: pd.DataFrame
    receipts: pd.DataFrame
    history: pd.DataFrame
    witness: pd.DataFrame
    sink: pd.DataFrame
    tables: Mapping[str, pd.DataFrame]
    damage: tuple[Damage, ...]
    tails: tuple[str, ...]


@dataclass(frozen=True)
class Bundle:
    """A loaded bundle. ``broken`` holds, by name, arms that are missing or unreadable, with the reason."""

    root: Path
    manifest: Mapping[str, Any]
    arms: tuple[Arm, ...]
    broken: Mapping[str, str] = field(default_factory=dict)
    seal: SealReport = field(default_factory=lambda: SealReport(sealed=False, readable=False))


def _load_json(path: Path, root: Path) -> Any:
    shown = path.relative_to(root).as_posix()
    try:
        return orjson.loads(path.read_bytes())
    except FileNotFoundError:
        raise BundleUnreadable(f"{shown} is missing; is this the directory that the run wrote?") from None
    except (OSError, ValueError) as error:
        raise BundleUnreadable(f"{shown} cannot be read: {error}; run the campaign again") from None


def _field(spec: Mapping[str, Any], name: str, kind: type, shown: str) -> Any:
    value = spec.get(name)
    if type(value) is not kind or (isinstance(value, int) and value < 0):
        raise BundleUnreadable(f"{shown}: {name} is {value!r}, not {_EXPECTED[kind]}; run the campaign again")
    return value


_EXPECTED = {int: "a count", str: "a text", bool: "true or false", list: "a list", dict: "an object"}


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
    steps = tuple(
        (_field(step, "step_id", int, shown), _field(step, "name", str, shown)) for step in get("steps", list)
    )
    if not steps:
        raise BundleUnreadable(f"{shown}: steps is empty, so there is nothing to judge")
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
        states=tuple(raw.get("states") or ("Completed",)),
        sequential=raw.get("sequential", True) is True,
        converged=get("converged", bool),
        progressing=get("progressing", bool),
        settings={
            name: raw.get(name) for name in ("workers", "recovery_nodes", "in_flight", "ttl_s", "converge_timeout_s")
        },
        waits=tuple(step["step_id"] for step in raw["steps"] if step.get("kind") == "signal"),
        features=frozenset(map(str, raw.get("features") or ())),
        pauses=raw.get("pauses", False) is True,
        faults=_faults(raw, shown),
    )


_FAULT_EVENTS = {"freeze": "process.frozen", "bury": "process.buried", "terminate": "process.terminated"}


def _faults(raw: Mapping[str, Any], shown: str) -> dict[str, int]:
    """Return how many events of each kind the planned disturbances lead to, at least."""
    planned = raw.get("disturbances") or {}
    if not isinstance(planned, dict) or any(type(count) is not int for count in planned.values()):
        raise BundleUnreadable(f"{shown}: disturbances must map names to counts")
    faults: dict[str, int] = {_FAULT_EVENTS.get(str(name), str(name)): count for name, count in planned.items()}
    return faults | ({"answer.lost": 1} if raw.get("lost_answers") else {})


def _read_records(records: Sequence[tuple[Any, str]], columns: Sequence[Column]) -> Reading:
    """Read JSON values that are one record each, given as (value, name shown in damage)."""
    whole = [(value, shown) for value, shown in records if isinstance(value, dict)]
    reading = build_records(columns, [(shown, 0) for _, shown in whole], [value for value, _ in whole])
    reading.damage += [
        Damage(shown, 0, "is not a JSON object") for value, shown in records if not isinstance(value, dict)
    ]
    return reading


def _read_receipts(directory: Path, root: Path) -> Reading:
    records: list[tuple[Any, str]] = []
    damage: list[Damage] = []
    for path in sorted(directory.glob("*.json")):
        try:
            records.append((_load_json(path, root), path.relative_to(root).as_posix()))
        except BundleUnreadable as error:
            damage.append(Damage(path.relative_to(root).as_posix(), 0, str(error)))
    reading = _read_records(records, _RECEIPT)
    reading.damage = damage + reading.damage
    return reading


def load_arm(root: Path, name: str) -> Arm:
    """Load one arm; ``BundleUnreadable`` if its directory, its declaration or its schedule is not there."""
    base = root / "arms" / name
    shown = f"arms/{name}"
    if not base.is_dir():
        raise BundleUnreadable(f"{shown} is missing although the manifest names it; run the campaign again")
    spec = parse_arm_spec(_load_json(base / "arm.json", root), f"{shown}/arm.json")
    schedule = _load_json(base / "schedule.json", root)
    if not isinstance(schedule, list):
        raise BundleUnreadable(f"{shown}/schedule.json is not a list; run the campaign again")

    def files(folder: str) -> list[tuple[Path, str]]:
        return [(path, f"{shown}/{folder}/{path.name}") for path in sorted((base / folder).glob("*.jsonl"))]

    witness = _witness_columns(spec.tokens)
    readings = {
        "instances": read_csv(base / "instances.csv", f"{shown}/instances.csv", _INSTANCES),
        "schedule": _read_records([(kill, f"{shown}/schedule.json") for kill in schedule], _SCHEDULE),
        "receipts": _read_receipts(base / "receipts", root),
        "history": read_jsonl(files("history"), _HISTORY),
        "witness": read_jsonl([file for file in files("witness") if file[0].name != SINK_NAME], witness),
        "sink": read_jsonl([file for file in files("witness") if file[0].name == SINK_NAME], witness),
    }
    tables = {
        table: read_csv(base / "tables" / f"{table}.csv", f"{shown}/tables/{table}.csv", columns)
        for table, columns in _table_columns(spec).items()
    }
    every = [*readings.values(), *tables.values()]
    return Arm(
        spec=spec,
        **{key: reading.frame for key, reading in readings.items()},
        tables={key: reading.frame for key, reading in tables.items()},
        damage=tuple(damage for reading in every for damage in reading.damage),
        tails=tuple(tail for reading in every for tail in reading.tails),
    )


def load(root: Path) -> Bundle:
    """Load a bundle and compare it with its seal.

    Raises ``BundleUnreadable`` when there is no manifest to say what should be here. An arm that cannot be
    loaded is listed in ``broken``, so that the others are still judged.
    """
    manifest = _load_json(root / "manifest.json", root)
    if not isinstance(manifest, dict) or manifest.get("schema") != 1:
        raise BundleUnreadable("manifest.json is not of schema 1; judge it with the version that wrote it")
    names = manifest.get("arms")
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise BundleUnreadable("manifest.json: arms is not a list of names; run the campaign again")
    arms: list[Arm] = []
    broken: dict[str, str] = {}
    for name in names:
        try:
            arms.append(load_arm(root, name))
        except BundleUnreadable as error:
            broken[name] = str(error)
    for path in sorted((root / "arms").glob("*/")):
        if path.name not in names:
            broken[path.name] = f"arms/{path.name} is not in the manifest; remove it if it is of another run"
    return Bundle(root, manifest, tuple(arms), broken, verify(root))
