"""The sections behind the verdict: every checker, the machine and server, how to judge again, what is not covered."""

from __future__ import annotations

from ninelives_reports.load import ArmView, View, record
from ninelives_reports.story import read_phases
from ninelives_reports.text import UNKNOWN, code, counted, fenced, seconds, setting, sheet, whole
from ninelives_rig.checkers import CHECKERS

_ARMS_WIDE = 3
_QUIET = ("PASS", "does not apply", UNKNOWN)
_PER_RUN = ("ttl_s", "workers", "recovery_nodes", "in_flight", "flows_max", "service_s", "durability")


def write_checkers(view: View) -> list[str]:
    """Write every checker's result by name, in each arm."""
    if not view.arms and not view.findings:
        return []
    lines = ["## Every checker"]
    for finding in view.findings:
        lines += ["", f"The bundle itself, {code(finding.get('name'))}: **{setting(finding.get('status'))}**. "]
        lines[-1] += setting(finding.get("sentence"))
    if view.arms:
        promises = {checker.name: checker.promise for checker in CHECKERS}
        wide = len(view.arms) > _ARMS_WIDE
        head = ["checker", "holds when it passes", *(["result"] if wide else [arm.name for arm in view.arms])]
        rows = [
            [code(name), promises.get(name, UNKNOWN), *_results(view, name, wide)]
            for name in _checkers(view, list(promises))
        ]
        lines += ["", *sheet(head, rows), "", "A checker that does not apply to an arm is not a pass of it."]
    return lines


def _checkers(view: View, order: list[str]) -> list[str]:
    """Return the checkers that the verdict knows, in the order of judging; those that this version lacks at the end."""
    known = {str(finding.get("checker")) for arm in view.arms for finding in arm.findings}
    for arm in view.arms:
        not_applicable = arm.measure("not_applicable")
        known |= {str(name) for name in not_applicable} if isinstance(not_applicable, list) else set()
    return [name for name in order if name in known] + sorted(known - set(order))


def _results(view: View, checker: str, wide: bool) -> list[str]:
    """Return a checker's result in each arm; where there are many arms, as one text that names the exceptions."""
    results = [_result(arm, checker) for arm in view.arms]
    if not wide:
        return results
    quiet = [f"{result} in {results.count(result)}" for result in _QUIET if result in results]
    loud = [f"{arm.name}: {result}" for arm, result in zip(view.arms, results, strict=True) if result not in _QUIET]
    return ["; ".join([*loud, *quiet])]


def _result(arm: ArmView, checker: str) -> str:
    """Return what a checker said of an arm: its gravest findings, by kind and count."""
    own = [finding for finding in arm.findings if finding.get("checker") == checker]
    if not own:
        not_applicable = arm.measure("not_applicable")
        listed = isinstance(not_applicable, list) and checker in not_applicable
        return "does not apply" if listed else UNKNOWN
    bad = [finding for finding in own if finding.get("status") != "PASS"]
    if not bad:
        return "PASS"
    kinds = (
        f"{setting(f.get('status'))} {str(f.get('name')).partition('.')[2]} ({whole(f.get('count'))})" for f in bad
    )
    return ", ".join(kinds)


def write_environment(view: View) -> list[str]:
    """Write the machine, the versions and the server's settings."""
    environment = view.environment
    memory = environment.get("memory_kb")
    memory_gib = f"{int(memory) / 1024**2:.1f} GiB" if isinstance(memory, str) and memory.isdigit() else UNKNOWN
    commit = setting(view.manifest.get("commit") or view.verdict.get("commit"))
    rows = [
        ("started", setting(view.manifest.get("started_at"))),
        ("commit", commit + (", with uncommitted changes" if view.manifest.get("dirty") else "")),
        ("engine", view.engine),
        ("seed", view.seed),
        ("system", setting(environment.get("system"))),
        ("processor", setting(environment.get("cpu_model"))),
        ("processors usable", f"{setting(environment.get('cpus_usable'))} of {setting(environment.get('cpus'))}"),
        ("memory", memory_gib),
        ("load average before the run", setting(environment.get("load_average_1m"))),
        ("Python", setting(environment.get("python"))),
        *((name, setting(version)) for name, version in sorted(record(environment.get("packages")).items())),
    ]
    lines = ["## Environment and settings", "", *sheet(["machine and code", ""], rows)]
    server = [(code(name), setting(value)) for name, value in sorted(view.settings.items()) if name not in _PER_RUN]
    if server:
        lines += ["", *sheet(["PostgreSQL setting", ""], server)]
    lines += _write_phases(view)
    return lines


def _write_phases(view: View) -> list[str]:
    rows = []
    for arm in view.arms:
        phases = read_phases(arm)
        if phases:
            shown = (f"{phase.name} {seconds((phase.end_t - phase.begin_t) / 1e9)}" for phase in phases)
            rows.append([arm.name, ", ".join(shown)])
    return ["", *sheet(["arm", "phases"], rows)] if rows else []


def write_again(view: View) -> list[str]:
    """Write how to judge the same evidence again, and how to run the same schedule again."""
    flows = {arm.count("flows") for arm in view.arms}
    kills = {arm.declared.get("kills_planned") for arm in view.arms}
    again = ["make chaos", f"CAMPAIGN={view.campaign}", f"SEED={view.seed}"]
    again += [f"FLOWS={next(iter(flows))}"] if len(flows) == 1 and None not in flows else []
    again += [f"KILLS={next(iter(kills))}"] if len(kills) == 1 and None not in kills else []
    again += [f"ENGINE={view.engine}"] if view.engine != "reference" else []
    seal = f"sha256 {view.seal}" if view.seal else "none: the bundle was never sealed"
    return [
        "## Judge it again",
        "",
        "`BUNDLE` is the directory that the run wrote. Judging needs its files and no database; `check` recomputes the",
        "verdict and compares every evidence file with the seal, `report` writes this text again, byte for byte.",
        "",
        *fenced(
            [
                ".venv/bin/ninelives-rig check BUNDLE",
                "make report BUNDLE=BUNDLE",
                f"{' '.join(again)}   # the same schedule in a new run",
            ]
        ),
        "",
        f"Seal of this bundle (`digests.json`): {seal}.",
    ]


def write_not_covered(view: View) -> list[str]:
    """Write what this run says nothing of."""
    told = {event for arm in view.arms if arm.facts is not None for event in arm.facts.arm.history["event"]}
    recovery_hit = any(record(arm.measure("kills_by_role")).get("recovery") for arm in view.arms)
    nodes = [_nodes(arm) for arm in view.arms]
    positions = sorted({str(arm.measure("position")) for arm in view.arms if arm.measure("position")})
    items = ["One machine, one database; every connection stayed on this machine."]
    if not told & {"line.cut", "line.deafened", "line.held"}:
        items.append("No partition, no lost acknowledgement of a commit, no delay.")
    if not told & {"server.crashed", "server.stopped"}:
        items.append("The server was never crashed, restarted, filled up or failed over.")
    else:
        items.append("The server was never filled up or failed over.")
    if "process.frozen" not in told:
        items.append(
            "No process was stopped past its lease and woken again (a zombie); fencing was not put to that test."
        )
    if not recovery_hit:
        items.append("No recovery node was killed.")
    items += [
        "One flow shape, a sequence of steps: no fork, for-each, choice, loop, sub-flow, signal or compensation.",
        f"Kill positions: {', '.join(positions) or 'none'} only; boundaries that were not hit are listed above.",
        f"At most {counted(max(nodes, default=0), 'node')} at a time; contention between dozens was not tried.",
        "Node clocks were not set wrong; no process was starved of its processor on purpose.",
        "No throughput: server, nodes and rig shared the processors named below; no figure here is one of capacity.",
    ]
    return ["## What this run does not cover", "", *(f"- {item}" for item in items)]


def _nodes(arm: ArmView) -> int:
    counts = (arm.declared.get("workers"), arm.declared.get("recovery_nodes"))
    return sum(count for count in counts if type(count) is int)
