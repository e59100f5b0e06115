"""The sections that put the figures beside what others published, and say what the run does not cover."""

from __future__ import annotations

from ninelives_reports.bench_figures import count_of, figure, milliseconds, number
from ninelives_reports.bench_folder import BenchFolder
from ninelives_reports.bench_published import (
    B7_RATE_PER_S,
    FLOWX_ACHIEVED_PER_S,
    FLOWX_B8_DEPTH,
    FLOWX_B8_INSTANCES,
    FLOWX_B8_P99_MS,
    FLOWX_CORES,
    FLOWX_OFFERED_PER_S,
    FLOWX_RESPONSE_P99_MS,
    FLOWX_SERVICE_P99_MS,
    FLOWX_SOURCE,
    PEERS,
    PEERS_SOURCE,
)
from ninelives_reports.bench_rehydration import is_idle
from ninelives_reports.load import Record, record
from ninelives_reports.text import UNKNOWN, setting, sheet, table, whole

_HEADING = "## Beside what others published"
_OTHERS = "Other machines, other languages, other loads: the figures show orders of magnitude and no more."


def write_beside_commits(folder: BenchFolder) -> list[str]:
    """Write B7 beside FlowX's, and whole flows beside other engines'."""
    arm: Record = next((one for one in folder.rows("b7", "arms") if _is_asked_for(one)), {})
    cores = setting(folder.environment.get("cpus_usable"))
    rows = [
        ["cores", cores, str(FLOWX_CORES)],
        ["offered commits/s", figure(arm.get("offered_per_s")), whole(FLOWX_OFFERED_PER_S)],
        ["achieved commits/s", figure(arm.get("achieved_per_s")), figure(FLOWX_ACHIEVED_PER_S)],
        ["response p99", _p99(arm, "response_ms"), milliseconds(FLOWX_RESPONSE_P99_MS)],
        ["service p99", _p99(arm, "service_ms"), milliseconds(FLOWX_SERVICE_P99_MS)],
    ]
    lines = [_HEADING, "", _OTHERS, "", *FLOWX_SOURCE, "", *table(["B7", "ninelives", "FlowX"], rows)]
    if not arm:
        lines += ["", f"No data on this side: no Poisson arm of one node ran at {whole(B7_RATE_PER_S)} commits/s."]
    return [*lines, "", *PEERS_SOURCE, "", *_peers(folder)]


def _is_asked_for(arm: Record) -> bool:
    plain = not arm.get("outbox") and not arm.get("checkpoints") and arm.get("transport") == "socket"
    return (
        plain
        and arm.get("arrivals") == "poisson"
        and arm.get("nodes") == 1
        and number(arm.get("offered_per_s")) == B7_RATE_PER_S
    )


def _p99(arm: Record, name: str) -> str:
    return milliseconds(record(arm.get(name)).get("p99"))


def _peers(folder: BenchFolder) -> list[str]:
    def rate(steps: int) -> str:
        arms = (
            arm
            for arm in folder.rows("engine", "arms")
            if arm.get("steps_per_flow") == steps and arm.get("nodes") == 1 and arm.get("offered_flows_per_s") is None
        )
        return figure(next(arms, {}).get("steps_per_s"))

    latency = folder.part("engine", "latency_50_ms")
    spread = f"{milliseconds(latency.get('p50'))}, p99 {milliseconds(latency.get('p99'))}"
    deep = [arm for arm in folder.rows("b8", "arms") if arm.get("depth") == 2_000 and is_idle(arm)]
    resumed = next((f"frontier read p99 {_p99(arm, 'ms')}" for arm in deep if arm.get("cache") == "warm"), UNKNOWN)
    own = ["ninelives, this run", rate(3), rate(20), spread if count_of(latency) else UNKNOWN, resumed]
    head = ["engine, one process", "steps/s, 3-step flows", "20-step flows", "3-step flow, start to finish",
            "resuming 2 000 steps"]  # fmt: skip
    return sheet(head, [own, *PEERS])


def write_beside_rehydration(folder: BenchFolder) -> list[str]:
    """Write B8 beside FlowX's."""
    arms = (
        arm
        for arm in folder.rows("b8", "arms")
        if arm.get("depth") == FLOWX_B8_DEPTH and is_idle(arm) and arm.get("cache") == "warm"
    )
    arm = next(arms, {})
    rows = [
        ["cores", setting(folder.environment.get("cpus_usable")), str(FLOWX_CORES)],
        ["instances", whole(count_of(arm.get("ms"))), whole(FLOWX_B8_INSTANCES)],
        ["steps each", whole(arm.get("depth")), whole(FLOWX_B8_DEPTH)],
        ["p99", _p99(arm, "ms"), milliseconds(FLOWX_B8_P99_MS)],
    ]
    lines = [_HEADING, "", _OTHERS, "", FLOWX_SOURCE[0], "", *table(["B8", "ninelives", "FlowX"], rows)]
    return [*lines, *([] if arm else ["", f"No data on this side: depth {FLOWX_B8_DEPTH} was not measured."])]


def write_not_covered(folder: BenchFolder) -> list[str]:
    """Write what the figures do not say."""
    lines = [
        "## What this does not cover",
        "",
        "- A server on a machine of its own: here load generator, runtime and server share the same cores, and no",
        "  network lies between them.",
        "- Replication, other tenants of the same server, and tables that have grown for months.",
        "- Steps that do something: their bodies are trivial, so that the figures are those of the journal.",
    ]
    absent = [setting(one.get("name")) for one in folder.rows("b7", "absent")]
    return [*lines, *([f"- What was not measured in this run: {', '.join(absent)}."] if absent else [])]
