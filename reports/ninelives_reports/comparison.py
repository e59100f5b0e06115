"""The section that puts this run beside what others published, with both sides' settings named."""

from __future__ import annotations

from collections.abc import Sequence

from ninelives_reports.load import ArmView, Record, View, record
from ninelives_reports.published import (
    FLOWX_CAPACITY,
    FLOWX_ISOLATED,
    FLOWX_QR2,
    FLOWX_SOURCE,
    PEERS_ISOLATED,
    PEERS_SOURCE,
)
from ninelives_reports.text import UNKNOWN, cell, seconds, setting, sheet, table, whole

_POSITIONS = ("before-commit", "after-commit")
_EFFECTS = ("idempotent", "at_most_once", "transactional")


def write_comparison(views: Sequence[View], takeovers: dict[str, Record]) -> list[str]:
    """Write the comparison of the first view, and of further ones, as far as there is anything to compare with.

    ``takeovers`` are of the first view, by arm. An engine that is wrong on purpose is not compared.
    """
    parts = []
    for place, view in enumerate(views):
        if view.engine != "reference":
            continue
        if view.campaign == "qr2":
            parts.append(_beside_record(view, takeovers if place == 0 else {}))
        if view.campaign == "isolated":
            parts.append(_beside_isolated(view))
    if not any(parts):
        return []
    lines = ["## Beside what others published", ""]
    lines += [
        "Other machines, other languages, other loads: counts can be compared, seconds as orders of magnitude only."
    ]
    lines += ["", *FLOWX_SOURCE]
    for part in parts:
        lines += ["", *part]
    return lines


def _beside_record(view: View, takeovers: dict[str, Record]) -> list[str]:
    arms = {arm.name: arm for arm in view.arms}
    present = [name for name in _POSITIONS if name in arms]
    if not present:
        return []
    own = {name: _own_figures(view, arms[name], takeovers.get(name, {})) for name in present}
    head = ["", *(f"ninelives, {name}" for name in present), *(f"FlowX, {name}" for name in _POSITIONS)]
    rows = [[label, *(own[name].get(label, UNKNOWN) for name in present), *theirs] for label, *theirs in FLOWX_QR2]
    rows += [
        ["service time a step", *(own[name]["service time a step"] for name in present), "none named", "none named"]
    ]
    machine = "{} usable cores, load {} before the run, PostgreSQL {}".format(
        *(
            setting(value)
            for value in (
                view.environment.get("cpus_usable"),
                view.environment.get("load_average_1m"),
                view.settings.get("server_version"),
            )
        )
    )
    return [
        f"This run: {machine}. Both rigs count a resume from the kill to the flow's end.",
        "",
        *table(head, rows),
        "",
        "A repeat in the documented window needs a flow whose effect was under way when its node died: their number",
        "grows with the flows that each kill leaves behind, and with the time a step takes.",
        "",
        "FlowX's resume is its lease TTL and a queue behind it, as its own three runs show:",
        "",
        *table(
            ["flows an arm", "recovery capacity", "scan every", "kills", "resume p99, before / after"], FLOWX_CAPACITY
        ),
    ]


def _own_figures(view: View, arm: ArmView, takeover: Record) -> dict[str, str]:
    declared, resume = arm.declared, record(arm.measure("resume_s"))
    recovery_kills = record(arm.measure("kills_by_role")).get("recovery", 0)
    steps = [step for step in declared.get("steps", []) if isinstance(step, dict)]
    services = {seconds(step.get("service_s")) for step in steps}
    each = f"{whole(declared.get('flows_max'))}, and {whole(declared.get('takeovers_max'))} taken over"
    return {
        "flows asked for": whole(arm.count("flows")),
        "completed": whole(arm.count("completed")),
        "never opened": whole(arm.count("never_opened")),
        "lost": whole(arm.count("lost")),
        "orphan effects": whole(arm.count("orphan_effects")),
        "nodes killed, all proved by exit status": whole(arm.count("kills_proved")),
        "effects": whole(arm.count("effects")),
        "repeated in the documented window": whole(arm.count("duplicates", "documented_window")),
        "repeated against the guarantee": whole(arm.count("duplicates", "against_guarantee")),
        "repeated between live workers": whole(arm.count("duplicates", "between_live_workers")),
        "flows recovered": whole(arm.count("recovered")),
        "flows left behind by each kill": _each_kill(arm, takeover),
        "takeover p50": seconds(takeover.get("p50")),
        "takeover p99": seconds(takeover.get("p99")),
        **{f"resume {name}": seconds(resume.get(name)) for name in ("p50", "p95", "p99", "max")},
        "lease TTL": f"{setting(declared.get('ttl_s'))} s",
        "workers × flows in flight": f"{whole(declared.get('workers'))} × {whole(declared.get('in_flight'))}",
        "recovery nodes × flows each": f"{whole(declared.get('recovery_nodes'))} × ({each})",
        "recovery scan every": "none: a neighbour sees the death",
        "recovery nodes killed": whole(recovery_kills) if recovery_kills else "none",
        "service time a step": ", ".join(sorted(services)) or UNKNOWN,
    }


def _each_kill(arm: ArmView, takeover: Record) -> str:
    left, kills = takeover.get("n"), arm.count("kills_proved")
    return f"{left / kills:.1f}" if isinstance(left, int) and kills else UNKNOWN


def _beside_isolated(view: View) -> list[str]:
    arms = {arm.name: arm for arm in view.arms}
    rows = []
    for effect in _EFFECTS:
        before, after = (arms.get(f"{effect}.{position}") for position in _POSITIONS)
        if before is not None and after is not None:
            rows.append([f"ninelives, `{effect}`", _repeats(before), _repeats(after), _next_effect(before, after)])
    if not rows:
        return []
    kills = {arm.count("kills_proved") for arm in view.arms}
    each = whole(next(iter(kills))) if len(kills) == 1 else "different numbers of"
    return [
        f"One flow at a time, {each} kills in each arm of ours and 20 of theirs: effects that happened twice.",
        "",
        *sheet(
            ["engine", "killed before the commit", "killed after it", "next effect by another process"],
            [*rows, FLOWX_ISOLATED, *PEERS_ISOLATED],
        ),
        "",
        *PEERS_SOURCE,
    ]


def _repeats(arm: ArmView) -> str:
    names = ("against_guarantee", "documented_window", "between_live_workers")
    counts = [arm.count("duplicates", name) for name in names]
    if any(count is None for count in counts):
        return UNKNOWN
    doubts = arm.count("in_doubt")
    total = whole(sum(count or 0 for count in counts))
    return f"{total} ({whole(doubts)} in doubt, settled)" if doubts and arm.count("in_doubt_open") == 0 else total


def _next_effect(*arms: ArmView) -> str:
    p99s = [record(arm.measure("next_effect_s")).get("p99") for arm in arms]
    known = [value for value in p99s if isinstance(value, int | float)]
    ttl_s = setting(arms[0].declared.get("ttl_s"))
    return cell(f"p99 {' / '.join(map(seconds, known))} at TTL {ttl_s} s") if known else UNKNOWN
