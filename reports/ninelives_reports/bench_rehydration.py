"""The sections of B8: taking over an instance, a whole node, and what waiting instances cost."""

from __future__ import annotations

from ninelives_reports.bench_figures import count_of, figure, milliseconds, number, percentiles, quotient, times
from ninelives_reports.bench_folder import BenchFolder
from ninelives_reports.load import Record, record
from ninelives_reports.text import setting, table, whole

_SPREAD = ("p50", "p95", "p99", "p999", "max")
_HEAD = ["n", "p50 ms", "p95", "p99", "p99.9", "max"]


def is_idle(arm: Record) -> bool:
    """Tell whether nothing else was going on in this arm."""
    return not number(arm.get("load_per_s"))


def _spread(distribution: object) -> list[str]:
    return [whole(count_of(distribution)), *percentiles(distribution, *_SPREAD)]


def write_rehydration(folder: BenchFolder, picture: str | None) -> list[str]:
    """Write the cost of taking over one instance by depth, and whether it grows."""
    arms = folder.rows("b8", "arms")
    lines = ["## Rehydration over depth", ""]
    if not arms:
        return [*lines, "No data: the run has no arm of rehydration."]
    rows = [
        [
            _condition(arm), whole(arm.get("depth")), figure(arm.get("achieved_load_per_s")),
            *_spread(arm.get("ms")), whole(arm.get("rows_read")), whole(arm.get("failed")),
        ]
        for arm in arms
    ]  # fmt: skip
    lines += table(["condition", "depth", "load/s", *_HEAD, "rows read", "failed"], rows)
    lines += [
        "",
        "From the claim of an abandoned instance through the fence to the frontier that its next step is derived from,",
        "one instance at a time. *Depth* is the number of steps that are already committed. *Cold*: nothing was read",
        "before, and the caches were dropped as far as the system allows.",
        *_remarks(arms),
        _growth(arms),
    ]
    lines += ["", picture or "No plot over depth: no arm has samples."]
    batch = folder.part("b8", "batch")
    if not count_of(batch.get("ms")):
        return [*lines, "", "No data for the takeover of many instances at once."]
    lines += [
        "",
        f"{whole(batch.get('instances'))} instances at once: p50 {milliseconds(record(batch.get('ms')).get('p50'))}, "
        f"{figure(batch.get('us_per_instance'))} µs an instance ({whole(count_of(batch.get('ms')))} repeats).",
    ]
    return lines


def _remarks(arms: list[Record]) -> list[str]:
    """Write where an instance was taken more than once, and where the system kept its cache."""
    again = sorted({int(arm["depth"]) for arm in arms if (number(arm.get("each_taken")) or 1) > 1})
    kept = sorted({int(arm["depth"]) for arm in arms if arm.get("page_cache_dropped") is False})
    said = [f"At depth {', '.join(map(whole, again))} each instance was taken in several rounds."] if again else []
    if kept:
        said.append(f"At depth {', '.join(map(whole, kept))} the cold arm kept the system's page cache.")
    return said


def _condition(arm: Record) -> str:
    load = "idle" if is_idle(arm) else f"under {figure(arm.get('load_per_s'))} commits/s"
    return f"{setting(arm.get('cache'))}, {load}"


def _growth(arms: list[Record]) -> str:
    """Say how much dearer the deepest warm and idle arm is than that of depth 20."""
    p99s = {
        arm["depth"]: record(arm.get("ms")).get("p99")
        for arm in arms
        if is_idle(arm) and arm.get("cache") == "warm" and type(arm.get("depth")) is int
    }
    deepest = max(p99s, default=0)
    ratio = quotient(p99s.get(deepest), p99s.get(20)) if deepest > 20 else None
    if ratio is None:
        return "Whether it grows with depth cannot be told: depth 20 or a greater one was not measured."
    return f"Depth {whole(deepest)} costs {times(ratio)} depth 20, by the p99 of warm and idle arms."


def write_takeover(folder: BenchFolder) -> list[str]:
    """Write the takeover of a killed node, its detection, and the renewal of leases."""
    takeover, renewal = folder.part("takeover"), folder.part("renewal")
    rows = []
    if count_of(takeover.get("all_finished_ms")):
        kill = f"SIGKILL of a node with {whole(takeover.get('instances'))} instances"
        rows += [[f"{kill}: seen", *_spread(takeover.get("seen_ms"))],
                 [f"{kill}: all finished", *_spread(takeover.get("all_finished_ms"))]]  # fmt: skip
    for arm in folder.rows("death", "arms"):
        label = f"a node gone, {setting(arm.get('name')).replace('_', ' ')}: seen {whole(arm.get('seen'))} times"
        rows.append([label, *_spread(arm.get("ms"))])
    if count_of(renewal.get("ms")):
        rows.append([f"one heartbeat over {whole(renewal.get('leases'))} leases", *_spread(renewal.get("ms"))])
    lines = ["## A node that is gone", ""]
    if not rows:
        return [*lines, "No data: neither takeover nor detection nor renewal was measured."]
    lines += table(["what", *_HEAD], rows)
    measured = {"a takeover": takeover, "the detection of a death": folder.part("death"), "a renewal": renewal}
    missing = [name for name, part in measured.items() if not part]
    return [*lines, *(["", f"No data for {', '.join(missing)}."] if missing else [])]


def write_claims(folder: BenchFolder, picture: str | None) -> list[str]:
    """Write what a claim costs while many instances are parked."""
    arms = folder.rows("claims", "arms")
    lines = ["## Claims while instances are parked", ""]
    if not arms:
        return [*lines, "No data: claims were not measured."]
    rows = [
        [whole(arm.get("parked")), label, *_spread(arm.get(name))]
        for arm in arms
        for name, label in (("empty_ms", "nothing due"), ("due_ms", "one due"))
    ]
    lines += [*table(["parked", "found", *_HEAD], rows, left=2), ""]
    fewest, most = arms[0], arms[-1]
    ratio = quotient(record(most.get("due_ms")).get("p99"), record(fewest.get("due_ms")).get("p99"))
    if len(arms) > 1 and ratio is not None:
        lines += [f"With {whole(most.get('parked'))} parked the p99 of a claim that finds something is {times(ratio)} "
                  f"that with {whole(fewest.get('parked'))}.", ""]  # fmt: skip
    return [*lines, picture or "No plot of claims: no arm has samples."]
