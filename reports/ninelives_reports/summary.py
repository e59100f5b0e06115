"""The sections a reader needs first: the verdict, what decided it, the arms, the arithmetic, the latencies."""

from __future__ import annotations

from collections.abc import Sequence

from ninelives_reports.load import ArmView, Record, View, record
from ninelives_reports.story import class_counts
from ninelives_reports.text import UNKNOWN, code, counted, fenced, plain, seconds, setting, sheet, table, whole

NEGATIVE_CONTROL = "naive"
_TOP = "##"
_DUPLICATES = ("against_guarantee", "documented_window", "between_live_workers")
_PERCENTILES = ("p50", "p95", "p99", "max")


def write_verdict(view: View) -> list[str]:
    """Write the verdict and what it means, in two sentences, with what a reader must know before believing it."""
    lines = [f"**{view.status}.** {_meaning(view)}"]
    for remark in _remarks(view):
        lines += ["", f"> {remark}"]
    return lines


def _meaning(view: View) -> str:
    writers = {"PASS": _mean_pass, "FAIL": _mean_fail, "BROKEN": _mean_broken}
    return writers.get(view.status, _mean_inconclusive)(view)


def _mean_pass(view: View) -> str:
    against = _sum(view.total("duplicates", "against_guarantee"), view.total("duplicates", "between_live_workers"))
    window = view.total("duplicates", "documented_window")
    repeated = (
        f"; {whole(window)} lie in the documented window, where an effect had happened and its commit had not"
        if window
        else ", and none was repeated at all"
    )
    other = [arm for arm in view.arms if arm.measure("fault") not in (None, "kill")]
    struck = sum(arm.count("fault_receipts") or 0 for arm in other)
    faults = (
        f" {counted(struck, 'fault')} of other kinds happened meanwhile, each with its own proof." if struck else ""
    )
    return (
        f"In {counted(len(view.arms), 'arm')}, {whole(view.total('flows'))} flows ran while "
        f"{counted(view.total('kills_proved'), 'node')} died of SIGKILL at chosen step boundaries, each death proved "
        f"by the process's own receipt and by its exit status -9.{faults} Every flow that was asked for came to its "
        f"end ({whole(view.total('completed'))} completed, {whole(view.total('lost'))} lost, "
        f"{whole(view.total('never_opened'))} never opened), and of {whole(view.total('effects'))} effects "
        f"{whole(against)} were repeated against the guarantee or by two live workers{repeated}."
    )


def _mean_fail(view: View) -> str:
    names = sorted({str(finding.get("name")) for _, finding in _problems(view) if finding.get("status") == "FAIL"})
    found = f"The evidence shows what must not be: {', '.join(map(code, names)) or 'see below'}."
    if view.engine == NEGATIVE_CONTROL:
        return f"{found} The engine `{view.engine}` is wrong on purpose, so that this is what the run is there to show."
    return f"{found} A guarantee of the engine `{view.engine}` was broken in this run, whatever else went well."


def _mean_inconclusive(view: View) -> str:
    return f"This run proves nothing in either direction: {_reason(view)}. It is not a pass; run the campaign again."


def _mean_broken(view: View) -> str:
    return f"The evidence cannot be trusted, or there is none: {_reason(view)}. Believe no figure of this report."


def _reason(view: View) -> str:
    """Return why the run has the verdict that it has, without the full stop."""
    if view.verdict.get("reason"):
        return plain(view.verdict["reason"]).rstrip(".")
    gravest = [finding for _, finding in _problems(view) if finding.get("status") == view.status]
    sentences = [plain(finding.get("sentence", "")).rstrip(".") for finding in gravest]
    return next(filter(None, sentences), "the verdict gives no reason")


def _remarks(view: View) -> list[str]:
    durability = view.settings.get("durability")
    weak = durability.get("weak") if isinstance(durability, dict) else None
    remarks = []
    if weak:
        remarks.append(f"**Weak durability.** The server may lose acknowledged commits: {setting(weak)}.")
    if view.manifest.get("dirty"):
        remarks.append("The checkout held uncommitted changes, so that its commit does not name the whole code.")
    if view.judged_here:
        remarks.append("The bundle had no verdict of its own; it was judged for this report.")
    for mark in ("aborted", "broken"):
        if view.manifest.get(mark):
            remarks.append(f"The run did not come to its end ({mark}): {setting(view.manifest[mark])}.")
    skipped: dict[str, list[str]] = {}
    for name, reason in sorted(record(view.manifest.get("not_applicable")).items()):
        skipped.setdefault(setting(reason), []).append(code(name))
    for reason, names in skipped.items():
        remarks.append(f"Not run with this engine, since {reason}: {', '.join(names)}.")
    remarks += [f"Arm {code(arm.name)} cannot be read: {plain(arm.problem)}." for arm in view.arms if arm.problem]
    return remarks


def _problems(view: View) -> list[tuple[str, Record]]:
    """Return (where, finding) of everything that is not a pass."""
    every = [("the bundle", finding) for finding in view.findings]
    every += [(arm.name, finding) for arm in view.arms for finding in arm.findings]
    return [(where, finding) for where, finding in every if finding.get("status") != "PASS"]


def write_problems(view: View) -> list[str]:
    """Write every finding that is not a pass, each with the first evidence lines that show why."""
    lines: list[str] = []
    for where, finding in _problems(view):
        head = f"- **{setting(finding.get('status'))}** {code(finding.get('name'))} in {where}"
        lines.append(f"{head}: {setting(finding.get('sentence'))}")
        shown = finding.get("lines")
        if isinstance(shown, list) and shown:
            lines += ["", *("  " + line for line in fenced(shown)), ""]
    return ["## What decided it", "", *lines] if lines else []


def write_arms(view: View, level: str = _TOP) -> list[str]:
    """Write the table of the arms."""
    head = ["arm", "effect", "kill position", "verdict", "flows", "completed", "lost", "never opened", "orphan effects"]
    head += ["kills proved", "flows recovered", "takeovers"]
    rows = [
        [
            arm.name,
            arm.effect,
            setting(arm.measure("position") or arm.declared.get("position")),
            arm.status,
            *(whole(arm.count(name)) for name in ("flows", "completed", "lost", "never_opened", "orphan_effects")),
            f"{whole(arm.count('kills_proved'))} of {whole(arm.declared.get('kills_planned'))}",
            whole(arm.count("recovered")),
            whole(arm.count("takeovers")),
        ]
        for arm in view.arms
    ]
    if not rows:
        return [f"{level} Arms", "", "No arm was begun."]
    return [f"{level} Arms", "", *table(head, rows, left=4)]


def write_duplicates(view: View, level: str = _TOP) -> list[str]:
    """Write the classes of duplicates and the sum that must close."""
    if not view.arms:
        return []
    lines = [f"{level} Effects: what was repeated, and whether it adds up", ""]
    head = ["arm", "against the guarantee", "documented window", "between live workers", "zombie", "per kill"]
    rows = []
    for arm in view.arms:
        counts = [arm.count("duplicates", name) for name in _DUPLICATES]
        proved, window = arm.count("kills_proved"), arm.count("duplicates", "documented_window")
        rate = f"{window / proved:.2f}" if proved and window is not None else UNKNOWN
        rows.append([arm.name, *map(whole, counts), whole(arm.count("zombie_effects")), rate])
    lines += table(head, rows)
    lines += ["", *_CLASSES] if level == _TOP else []
    lines += ["", "Completed steps and everything classified must be exactly the effects that were seen:"]
    return [*lines, "", *fenced(line for arm in view.arms for line in _sum_lines(arm))]


_CLASSES = (
    "*Against the guarantee*: an effect of a step whose commit had been acknowledged, or any repeat of an effect that",
    "promises none; must be 0. *Documented window*: the effect had happened, its commit had not, and a successor had",
    "it again; an idempotent effect allows it. *Between live workers*: under a token when a greater one had been",
    "issued, by a process that lived; must be 0. *Zombie*: the same by a process that had been stopped and woken.",
    "*Per kill*: repeats in the documented window for each proved kill; a killed node takes every flow in its hands",
    "with it.",
)


def _sum_lines(arm: ArmView) -> list[str]:
    steps, effects = arm.count("steps_completed"), arm.count("effects")
    if steps is None or effects is None:
        return [f"{arm.name}: not measured"]
    parts = [(steps, "steps completed"), *_parts(arm)]
    total = sum(count for count, _ in parts)
    named = " + ".join(f"{whole(count)} {name}" for count, name in parts)
    end = "closes" if total == effects else f"DOES NOT CLOSE: {whole(effects)} effects were seen"
    return [f"{arm.name}: {named} = {whole(total)} effects; {end}"]


def _parts(arm: ArmView) -> list[tuple[int, str]]:
    """Return what there is beside completed steps; the three duplicate classes always, the rest where there is any."""
    classes = class_counts(arm)
    duplicates = [(arm.count("duplicates", name) or 0, name.replace("_", " ")) for name in _DUPLICATES]
    if classes is None:
        others = [(arm.count("retried") or 0, "retried"), (arm.count("uncommitted") or 0, "uncommitted")]
    else:
        others = [(classes[name], name) for name in ("retried", "uncommitted", "zombie")]
    others.append((_unfinished(arm), "of unfinished flows"))
    return duplicates + [(count, name) for count, name in others if count]


def _unfinished(arm: ArmView) -> int:
    """Count, for an engine without a journal, the accounted effects of flows that did not complete."""
    if arm.facts is None or arm.facts.spec.journal:
        return 0
    table_ = arm.facts.classified
    own = table_[table_["class"] == "accounted"]
    return int((~own["instance_id"].map(arm.facts.states).eq("Completed")).sum())


def write_latencies(view: View, takeovers: dict[str, Record], level: str = _TOP) -> list[str]:
    """Write how long abandoned flows waited, with the settings that this depends on."""
    if not view.arms:
        return []
    lines = [f"{level} How fast abandoned flows went on", ""]
    rows = []
    for arm in view.arms:
        measures = [("next effect", arm.measure("next_effect_s")), ("end", arm.measure("resume_s"))]
        for name, figures in [("takeover", takeovers.get(arm.name)), *measures]:
            of = figures if isinstance(figures, dict) else {}
            shown = [UNKNOWN if not of.get("n") else seconds(of.get(name)) for name in _PERCENTILES]
            rows.append([arm.name, name, whole(of.get("n", 0)), *shown])
    lines += table(["arm", "from the kill to", "n", *_PERCENTILES], rows, left=2)
    lines += ["", *_MEASURES] if level == _TOP else []
    return [*lines, "", *write_capacity(view.arms)]


_MEASURES = (
    "One sample for each flow that a killed process held unfinished, from the time in the kill's receipt to: the next",
    "claim by another process (*takeover*), the next effect by another process (*next effect*, `next_effect_s`), the",
    "flow's end (*end*, `resume_s`). Exact nearest-rank percentiles over all samples; a dash where there was none. No",
    "latency decides the verdict.",
)


def write_capacity(arms: Sequence[ArmView]) -> list[str]:
    """Write the settings without which a latency means nothing, one line for each set of arms that share them."""
    head = ["arms", "lease TTL", "workers", "recovery nodes", "own starts in flight", "flows a node holds"]
    head += ["more on takeover", "steps", "service time a step"]
    groups: dict[tuple[str, ...], list[str]] = {}
    for arm in arms:
        groups.setdefault(_capacity(arm), []).append(arm.name)
    return sheet(head, [["all" if len(groups) == 1 else ", ".join(names), *row] for row, names in groups.items()])


def _capacity(arm: ArmView) -> tuple[str, ...]:
    declared = arm.declared
    steps = [step for step in declared.get("steps", []) if isinstance(step, dict)]
    services = list(dict.fromkeys(seconds(step["service_s"]) for step in steps if "service_s" in step))
    names = ("workers", "recovery_nodes", "in_flight", "flows_max", "takeovers_max")
    ttl_s = declared.get("ttl_s")
    return (
        f"{setting(ttl_s)} s" if ttl_s is not None else UNKNOWN,
        *(whole(declared.get(name)) for name in names),
        whole(len(steps)) if steps else UNKNOWN,
        ", ".join(services) or UNKNOWN,
    )


def _sum(*counts: int | None) -> int | None:
    return None if any(count is None for count in counts) else sum(count or 0 for count in counts)
