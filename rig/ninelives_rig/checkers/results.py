"""Whether inputs and results are what the workload makes of them: the rig's bodies return the number of their step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from ninelives_rig.checkers.base import Checker, Problems
from ninelives_rig.checkers.facts import STEP_KEY, Facts
from ninelives_rig.evidence.spec import ArmSpec
from ninelives_rig.verdict import Finding, Status

NOTHING = object()


def _value(cell: object) -> Any:
    """Parse a cell of JSON; what is none equals nothing."""
    try:
        return orjson.loads(cell) if isinstance(cell, str) else NOTHING
    except ValueError:
        return NOTHING


def check_results(facts: Facts) -> list[Finding]:
    """Find inputs that are not those of the start, and results that do not follow from the journal."""
    problems = Problems("results")
    instances = facts.arm.tables["instance"].drop_duplicates("instance_id").set_index("instance_id")
    problems.add("input", Status.FAIL, "{n} instances have another input than their start gave.", _inputs(facts))
    problems.add("step", Status.FAIL, "{n} steps have another result than their body returned.", _steps(facts))
    results = {one: _value(cell) for one, cell in instances["result"].items()}
    problems.add("other", Status.FAIL, "{n} results do not follow from the journal.", _ends(facts, results))
    told = facts.events("ended")[["instance_id", "state", "result"]].dropna()
    lines = [
        f"instance_id={one} told={result}"
        for one, state, result in told.itertuples(index=False, name=None)
        if state == facts.states.get(one) and results.get(one, NOTHING) != _value(result)
    ]
    problems.add("told", Status.FAIL, "{n} results were told otherwise than they are.", lines)
    return problems.found


def _inputs(facts: Facts) -> Iterator[str]:
    index = dict(zip(facts.arm.instances["instance_id"], facts.arm.instances["index"], strict=True))
    table = facts.arm.tables["instance"]
    for one, cell in zip(table["instance_id"], table["input"], strict=True):
        if one in index and _value(cell) != {"index": index[one]}:
            yield f"instance_id={one} input={cell} index={index[one]}"


def _steps(facts: Facts) -> Iterator[str]:
    """A body returns its step's number, and a wait the payload of the signal that it consumed."""
    signals = facts.arm.tables.get("signal")
    payloads: dict[tuple[object, object], object] = {}
    if signals is not None:
        consumed = signals.dropna(subset=["consumed_step_id"])
        keys = zip(consumed["instance_id"], consumed["consumed_step_id"], strict=True)
        payloads = dict(zip(keys, consumed["payload"], strict=True))
        for one, signal_id, cell in zip(signals["instance_id"], signals["signal_id"], signals["payload"], strict=True):
            if _value(cell) != {"signal": signal_id}:
                yield f"instance_id={one} signal_id={signal_id} payload={cell}"
    rows = facts.successes[["instance_id", "step_id", "result"]]
    for one, step_id, cell in rows.itertuples(index=False, name=None):
        wanted: object = {"step": step_id}
        if step_id in facts.spec.waits:
            wanted = _value(payloads.get((one, step_id)))
        if wanted is not NOTHING and _value(cell) != wanted:
            yield f"instance_id={one} step_id={step_id} result={cell}"


def _ends(facts: Facts, results: dict[Any, Any]) -> Iterator[str]:
    """An instance that completed has the result of the last step of its flow."""
    last = facts.successes[facts.successes["step_id"] == facts.spec.step_ids[-1]].drop_duplicates(STEP_KEY)
    ends = dict(zip(last["instance_id"], last["result"], strict=True))
    for one, state in sorted(facts.states.items()):
        # A completed instance without its last step is the business of the arithmetic.
        if state == "Completed" and one in ends and results.get(one, NOTHING) != _value(ends[one]):
            yield f"instance_id={one} result={results.get(one)} last step={ends[one]}"


def _has_results(spec: ArmSpec) -> bool:
    return spec.journal


CHECKERS = (
    Checker(
        "results",
        "Every result follows from the journal.",
        ("input", "step", "other", "told"),
        check_results,
        _has_results,
    ),
)
