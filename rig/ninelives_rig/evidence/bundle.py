"""A bundle of evidence, loaded: the manifest, and each arm's files as frames. Reads files, judges nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pandas as pd

from ninelives_rig.evidence.columns import (
    HISTORY,
    INSTANCES,
    RECEIPT,
    SCHEDULE,
    promised_tables,
    table_columns,
    witness_columns,
)
from ninelives_rig.evidence.seal import SealReport, verify
from ninelives_rig.evidence.spec import ArmSpec, BundleUnreadable, parse_arm_spec
from ninelives_rig.evidence.tables import Column, Damage, Reading, build_records, read_csv, read_jsonl

SINK_NAME = "sink.jsonl"


@dataclass(frozen=True)
class Arm:
    """One arm's evidence. ``damage`` is what could not be read; ``tails`` are lines cut short, by file.

    ``seed`` is the manifest's, from which the ids of the instances follow.
    """

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
    seed: object = None


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
    reading = _read_records(records, RECEIPT)
    reading.damage = damage + reading.damage
    return reading


def load_arm(root: Path, name: str, seed: object = None) -> Arm:
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

    witness = witness_columns(spec.tokens)
    readings = {
        "instances": read_csv(base / "instances.csv", f"{shown}/instances.csv", INSTANCES),
        "schedule": _read_records([(kill, f"{shown}/schedule.json") for kill in schedule], SCHEDULE),
        "receipts": _read_receipts(base / "receipts", root),
        "history": read_jsonl(files("history"), HISTORY, owned=True),
        "witness": read_jsonl([file for file in files("witness") if file[0].name != SINK_NAME], witness, owned=True),
        "sink": read_jsonl([file for file in files("witness") if file[0].name == SINK_NAME], witness),
    }
    promised = promised_tables(spec)
    tables = {
        table: read_csv(base / "tables" / f"{table}.csv", f"{shown}/tables/{table}.csv", columns)
        for table, columns in table_columns(spec).items()
        if table in promised or (base / "tables" / f"{table}.csv").exists()
    }
    every = [*readings.values(), *tables.values()]
    return Arm(
        spec=spec,
        **{key: reading.frame for key, reading in readings.items()},
        tables={key: reading.frame for key, reading in tables.items()},
        damage=tuple(damage for reading in every for damage in reading.damage),
        tails=tuple(tail for reading in every for tail in reading.tails),
        seed=seed,
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
            arms.append(load_arm(root, name, manifest.get("seed")))
        except BundleUnreadable as error:
            broken[name] = str(error)
    for path in sorted((root / "arms").glob("*/")):
        if path.name not in names:
            broken[path.name] = f"arms/{path.name} is not in the manifest; remove it if it is of another run"
    return Bundle(root, manifest, tuple(arms), broken, verify(root))
