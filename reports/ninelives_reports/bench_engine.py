"""The section about whole flows, from a durable start to the end."""

from __future__ import annotations

from ninelives_reports.bench_figures import (
    count_of,
    figure,
    milliseconds,
    number,
    percentiles,
    quotient,
    times,
)
from ninelives_reports.bench_folder import BenchFolder
from ninelives_reports.load import Record
from ninelives_reports.text import cell, setting, table, whole


def write_engine(folder: BenchFolder, picture: str | None) -> list[str]:
    """Write what the whole engine does: steps, flows, latency, and what a step costs whom."""
    engine, arms = folder.part("engine"), folder.rows("engine", "arms")
    lines = ["## The whole engine", ""]
    if not arms:
        return [*lines, "No data: the run has no arm of whole flows."]
    lines += [*_headline(engine), "", *_table(arms), "", *_costs(arms)]
    return [*lines, "", picture or "No curve of latencies: no open-loop arm of flows has samples."]


def _headline(engine: Record) -> list[str]:
    latency = engine.get("latency_50_ms")
    spread = latency if isinstance(latency, dict) else {}
    calm = (
        f"At 50 flows/s a three-step flow takes p50 {milliseconds(spread.get('p50'))} and p99 "
        f"{milliseconds(spread.get('p99'))} from start to finish (n = {whole(count_of(spread))})."
        if count_of(spread)
        else "No data for the latency at 50 flows/s."
    )
    lasting = number(engine.get("steps_per_s_180"))
    held = f"{figure(lasting)} steps/s over 180 s" if lasting is not None else "180 s were not measured"
    return [
        f"Three-step flows: {figure(engine.get('steps_per_s'))} steps/s, {figure(engine.get('flows_per_s'))} flows/s, "
        f"{times(engine.get('pgbench_ratio'))} pgbench's transactions; {held}.",
        calm,
    ]


def _table(arms: list[Record]) -> list[str]:
    head = ["arm", "load", "steps a flow", "nodes", "flows", "failed", "steps/s", "flows/s", "p50 ms", "p99",
            "p99.9", "max", "client µs/step", "server µs/step", "WAL bytes/step", "round trips/step"]  # fmt: skip
    return table(head, [_row(arm) for arm in arms], left=2)


def _row(arm: Record) -> list[str]:
    offered = number(arm.get("offered_flows_per_s"))
    return [
        cell(setting(arm.get("name"))), f"{figure(offered)} flows/s" if offered else "closed loop",
        *(whole(arm.get(name)) for name in ("steps_per_flow", "nodes", "flows", "failed")),
        *(figure(arm.get(name)) for name in ("steps_per_s", "flows_per_s")),
        *percentiles(arm.get("response_ms"), "p50", "p99", "p999", "max"),
        *(figure(arm.get(f"{name}_per_step")) for name in ("client_us", "server_us", "wal_bytes", "round_trips")),
    ]  # fmt: skip


def _is_full(arm: Record) -> bool:
    return arm.get("steps_per_flow") == 3 and arm.get("offered_flows_per_s") is None and not arm.get("transactional")


def _costs(arms: list[Record]) -> list[str]:
    """Write how the processor is divided between Python and the server, in the arm of three-step flows."""
    arm = next((arm for arm in arms if _is_full(arm)), None)
    if arm is None:
        return ["The latencies of a closed loop are those of a full queue: only its rates say something."]
    client, server = number(arm.get("client_us_per_step")), number(arm.get("server_us_per_step"))
    share = quotient(client, (client or 0) + (server or 0))
    split = (
        f"In {setting(arm.get('name'))} a step costs {figure(client)} µs of Python and {figure(server)} µs of the "
        f"server: {100 * share:.0f} % and {100 - 100 * share:.0f} %."
        if share is not None and server is not None
        else "How the processor is divided between Python and the server was not measured."
    )
    return [f"{split} The latencies of a closed loop are those of a full queue: only its rates say something."]
