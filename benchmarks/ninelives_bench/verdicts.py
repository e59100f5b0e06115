"""The verdicts over a summary: pure functions, and whatever they cannot read is never a PASS.

BROKEN is what cannot be judged: a figure that is missing, NaN or negative, an arm that is missing, a summary of
another run than its manifest. Then FAIL, INCONCLUSIVE (the conditions of the limit were not met) and PASS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final

from ninelives_rig.verdict import Status, merge

Record = Mapping[str, Any]

SCHEMA: Final = 1
B7_RATE_PER_S: Final = 5_000
B7_P99_MS: Final = 15.0
B7_LADDER_PER_S: Final = (1_000, 5_000, 10_000, 20_000, 30_000)
B8_P99_MS: Final = 8.0
B8_DEPTH: Final = 20
HELD_SHARE: Final = 0.98
SAMPLES_MIN: Final = 100
DURABLE: Final = ("fsync", "synchronous_commit")
SECTIONS: Final = ("reference", "b7", "engine", "b8", "takeover", "renewal", "death", "claims", "sustained")
_PERCENTILES: Final = ("p50", "p95", "p99", "p999", "max")


class Unreadable(ValueError):
    """A figure that a verdict depends on is not there, or is no figure."""


class Judgement:
    """The findings about one part, gravest first when it is closed."""

    def __init__(self) -> None:
        self._found: list[tuple[Status, str]] = []

    def find(self, status: Status, reason: str) -> None:
        """Note one reason."""
        self._found.append((status, reason))

    def close(self, passed: str) -> dict[str, Any]:
        """Return the verdict with the reasons that brought it about; ``passed`` is the reason of a PASS."""
        if not self._found:
            return {"verdict": Status.PASS.value, "reasons": [passed]}
        worst = merge(status for status, _ in self._found)
        return {"verdict": worst.value, "reasons": [f"{status.value}: {reason}" for status, reason in self._found]}


def judge(summary: object, manifest: object) -> dict[str, Any]:
    """Return the verdicts of b7, b8, engine and overall of a summary beside its manifest."""
    trouble = _unusable(summary, manifest)
    if trouble or not isinstance(summary, Mapping):
        broken = {"verdict": Status.BROKEN.value, "reasons": [f"BROKEN: {trouble}"]}
        return dict.fromkeys(("b7", "b8", "engine", "overall"), broken)
    verdicts = {
        "b7": _guarded(summary, _judge_b7),
        "b8": _guarded(summary, _judge_b8),
        "engine": _guarded(summary, _judge_engine),
    }
    return {**verdicts, "overall": _overall(summary, verdicts)}


def status_of(verdicts: Record) -> Status:
    """Return the overall verdict; BROKEN when there is none."""
    try:
        return Status(verdicts["overall"]["verdict"])
    except (KeyError, TypeError, ValueError):
        return Status.BROKEN


def _unusable(summary: object, manifest: object) -> str:
    """Why there is nothing to judge, or nothing that belongs to this run."""
    if not isinstance(summary, Mapping) or not isinstance(manifest, Mapping):
        return "summary.json or manifest.json cannot be read"
    if summary.get("schema") != SCHEMA:
        return f"the summary is of schema {summary.get('schema')!r}, not {SCHEMA}"
    run_id = summary.get("run_id")
    if not isinstance(run_id, str) or not run_id:
        return "the summary does not say which run it is of"
    if run_id != manifest.get("run_id"):
        return f"the summary is of run {run_id}, the manifest of run {manifest.get('run_id')}: stale results"
    if summary.get("unfinished"):
        return "the run was not finished"
    return ""


def _guarded(summary: Record, judge_part: Callable[[Record, Judgement], str]) -> dict[str, Any]:
    judgement = Judgement()
    passed = ""
    try:
        _judge_durability(summary, judgement)
        passed = judge_part(summary, judgement)
    except Unreadable as trouble:
        judgement.find(Status.BROKEN, str(trouble))
    except (TypeError, KeyError, AttributeError, ValueError) as trouble:
        judgement.find(Status.BROKEN, f"the summary is not of the shape that is documented ({trouble!r})")
    return judgement.close(passed)


def _judge_durability(summary: Record, judgement: Judgement) -> None:
    for name in DURABLE:
        value = record(summary, "settings").get(name)
        if not isinstance(value, str):
            raise Unreadable(f"the settings do not say whether {name} is on")
        if value != "on":
            judgement.find(Status.INCONCLUSIVE, f"{name} is {value}, not on")


def _judge_b7(summary: Record, judgement: Judgement) -> str:
    b7 = record(summary, "b7")
    arms = rows(b7, "arms")
    for arm in [*arms, *(rows(b7, "saturations") if "saturations" in b7 else [])]:
        refused = number(arm, "refused")
        if refused:
            judgement.find(Status.FAIL, f"{arm.get('name')}: {refused:.0f} commits were refused")
    for arm in arms:
        _check_commit_arm(arm)
    ladder = {arm["offered_per_s"]: arm for arm in arms if _is_ladder(arm)}
    missing = [rate for rate in B7_LADDER_PER_S if rate not in ladder]
    if missing:
        raise Unreadable(f"b7: no Poisson arm of one node over the socket at {', '.join(map(str, missing))} commits/s")
    if not number(b7, "saturation_per_s"):
        judgement.find(Status.INCONCLUSIVE, "the saturation is 0 commits/s: nothing was committed")
    return _judge_b7_limit(ladder[B7_RATE_PER_S], judgement)


def _is_ladder(arm: Record) -> bool:
    kind = (arm.get("arrivals"), arm.get("nodes"), arm.get("transport"), arm.get("outbox"))
    return kind == ("poisson", 1, "socket", False) and not arm.get("checkpoints")


def _check_commit_arm(arm: Record) -> None:
    name = f"b7 {arm.get('name')}"
    samples = spread(arm, "response_ms", name)
    number(arm, "unanswered")
    if samples < 0.999 * number(arm, "achieved_per_s") * number(arm, "seconds"):
        raise Unreadable(f"{name}: fewer samples than commits")
    if not number(arm, "offered_per_s"):
        raise Unreadable(f"{name}: nothing was offered")


def _judge_b7_limit(arm: Record, judgement: Judgement) -> str:
    """B7 proper: response p99 at 5 000 commits/s on one node."""
    samples = spread(arm, "response_ms", "b7 at 5 000/s")
    offered, achieved = number(arm, "offered_per_s"), number(arm, "achieved_per_s")
    held = achieved >= HELD_SHARE * offered
    if offered < B7_RATE_PER_S:
        judgement.find(Status.INCONCLUSIVE, f"{offered:.0f} commits/s were offered, not {B7_RATE_PER_S}")
    if not held:
        judgement.find(Status.INCONCLUSIVE, f"{achieved:.0f} of {offered:.0f} commits/s were achieved: rate not held")
    unanswered = number(arm, "unanswered")
    if unanswered:
        judgement.find(Status.INCONCLUSIVE, f"{unanswered:.0f} commits were never answered")
    if not _enough(samples, "b7 at 5 000/s", judgement):
        return ""
    p99 = number(arm, "response_ms", "p99")
    said = f"at {offered:.0f} commits/s the response p99 is {p99:.2f} ms of {samples} commits, limit {B7_P99_MS:.0f} ms"
    if held and p99 > B7_P99_MS:
        judgement.find(Status.FAIL, said)
    return f"{said}, rate held"


def _judge_b8(summary: Record, judgement: Judgement) -> str:
    arms = rows(record(summary, "b8"), "arms")
    worst, worst_said = -1.0, ""
    for arm in arms:
        depth, load = number(arm, "depth"), number(arm, "load_per_s")
        name = f"b8 depth {depth:.0f}, {load:.0f} commits/s beside it, {arm.get('cache')} cache"
        if arm.get("cache") not in ("warm", "cold"):
            raise Unreadable(f"{name}: is the cache warm or cold?")
        samples = spread(arm, "ms", name)
        failed = number(arm, "failed")
        if failed:
            judgement.find(Status.FAIL, f"{name}: {failed:.0f} resumes failed")
        if not number(arm, "rows_read"):
            judgement.find(Status.INCONCLUSIVE, f"{name}: 0 rows were read")
        if load and number(arm, "achieved_load_per_s") < HELD_SHARE * load:
            judgement.find(Status.INCONCLUSIVE, f"{name}: the load was not held")
        if not _enough(samples, name, judgement) or arm["cache"] == "cold":
            continue  # A cold read waits for the disk: it is reported and gates nothing.
        p99 = number(arm, "ms", "p99")
        if p99 > B8_P99_MS:
            judgement.find(Status.FAIL, f"{name}: p99 is {p99:.2f} ms of {samples}, limit {B8_P99_MS:.0f} ms")
        if p99 > worst:
            worst, worst_said = p99, name
    if not any((arm["depth"], arm["load_per_s"], arm["cache"]) == (B8_DEPTH, 0, "warm") for arm in arms):
        raise Unreadable(f"b8: no idle arm with a warm cache at depth {B8_DEPTH}")
    return f"the worst p99 is {worst:.2f} ms ({worst_said}), limit {B8_P99_MS:.0f} ms"


def _judge_engine(summary: Record, judgement: Judgement) -> str:
    engine = record(summary, "engine")
    arms = rows(engine, "arms")
    flows = 0
    for arm in arms:
        name = f"engine {arm.get('name')}"
        if not number(arm, "steps_per_flow") or not number(arm, "seconds"):
            raise Unreadable(f"{name}: without steps or without time")
        failed, ended = number(arm, "failed"), number(arm, "flows")
        samples = spread(arm, "response_ms", name)
        if failed:
            judgement.find(Status.FAIL, f"{name}: {failed:.0f} flows did not complete")
        _enough(min(int(ended), samples), name, judgement)
        flows += int(ended)
    if not any(arm["steps_per_flow"] == 3 and arm.get("offered_flows_per_s") is None for arm in arms):
        raise Unreadable("engine: no closed-loop arm of three-step flows")
    if not number(engine, "steps_per_s"):
        judgement.find(Status.INCONCLUSIVE, "engine: 0 steps/s")
    number(engine, "flows_per_s")
    _enough(spread(engine, "latency_50_ms", "engine at 50 flows/s"), "engine at 50 flows/s", judgement)
    return f"all of {flows} flows completed"


def _overall(summary: Record, verdicts: Record) -> dict[str, Any]:
    judgement = Judgement()
    for name, one in verdicts.items():
        if one["verdict"] != Status.PASS.value:
            judgement.find(Status(one["verdict"]), f"{name}: {one['reasons'][0]}")
    for name in SECTIONS:
        if not isinstance(summary.get(name), Mapping):
            judgement.find(Status.BROKEN, f"{name} was not measured")
    if not isinstance(summary.get("quick"), bool):
        judgement.find(Status.BROKEN, "the summary does not say whether it is of a quick run")
    return judgement.close("b7, b8 and engine pass")


def _enough(samples: int, name: str, judgement: Judgement) -> bool:
    if samples < SAMPLES_MIN:
        judgement.find(Status.INCONCLUSIVE, f"{name}: {samples} samples, fewer than {SAMPLES_MIN}")
    return samples >= SAMPLES_MIN


def record(parent: Record, *path: str) -> Record:
    """Return the object at ``path``; raises ``Unreadable``."""
    found: Any = parent
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        raise Unreadable(f"{'.'.join(path)} is missing")
    return found


def rows(parent: Record, name: str) -> list[Record]:
    """Return the objects of a list that has some; raises ``Unreadable``."""
    found = parent.get(name)
    if not isinstance(found, list) or not found or not all(isinstance(one, Mapping) for one in found):
        raise Unreadable(f"{name} is missing or empty")
    return found


def number(parent: Record, *path: str) -> float:
    """Return the figure at ``path``; raises ``Unreadable`` for what is missing, no number, NaN or negative."""
    value = record(parent, *path[:-1]).get(path[-1])
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
        raise Unreadable(f"{parent.get('name', '')} {'.'.join(path)} is {value!r}, which is no figure".strip())
    return value


def spread(parent: Record, name: str, what: str) -> int:
    """Return the number of samples of a distribution; raises ``Unreadable`` when its figures cannot be true."""
    samples = number(parent, name, "n")
    if samples != int(samples):
        raise Unreadable(f"{what}: {samples} samples")
    if samples:
        values = [number(parent, name, percentile) for percentile in _PERCENTILES]
        if values != sorted(values):
            raise Unreadable(f"{what}: the percentiles of {name} are out of order")
    return int(samples)
