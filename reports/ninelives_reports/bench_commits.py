"""The sections of B7 about commits: the arms, the references of the same run, the long run."""

from __future__ import annotations

from ninelives_reports.bench_figures import (
    NO_DATA,
    count_of,
    figure,
    mebibytes,
    milliseconds,
    number,
    percentiles,
    quotient,
    rate_held,
    times,
    value_of,
)
from ninelives_reports.bench_folder import BenchFolder
from ninelives_reports.load import Record
from ninelives_reports.text import UNKNOWN, cell, counted, setting, table, whole

_LONGEST = ("p50", "p99", "p999", "max")


def write_arms(folder: BenchFolder, picture: str | None) -> list[str]:
    """Write the table of arms and what was not measured."""
    arms, absent = folder.rows("b7", "arms"), folder.rows("b7", "absent")
    lines = ["## Arms", ""]
    if arms:
        lines += [*_latency_table(arms), "", *_cost_table(arms), "", *_EXPLAINED]
    else:
        lines += ["No data: the run has no arm of commits."]
    saturations = folder.rows("b7", "saturations")
    if saturations:
        lines += ["", *_saturation_table(saturations)]
    knee = number(folder.part("b7").get("knee_per_s"))
    found = f"is {figure(knee)} commits/s" if knee else "was not found"
    lines += ["", f"The knee, the highest Poisson rate of this ladder that one node held, {found}."]
    for one in absent:
        lines += ["", f"Not measured: {setting(one.get('name'))}, because {setting(one.get('why'))}."]
    return [*lines, "", picture or "No plot of latency over the offered rate: no open-loop arm has samples."]


_EXPLAINED = (
    "*Response* counts from the arrival that was drawn before the run, *service* from when the commit was handed to",
    "the runtime. What was unanswered at the end is counted with the time it had waited. A star marks an arm that",
    "did not reach 98 % of its rate: it shows a queue that grows, not a latency. *Client* is the process of the",
    "runtime with the load generator in it, *server* all processes of PostgreSQL.",
)


def _name(arm: Record) -> str:
    missed = number(arm.get("offered_per_s")) is not None and not rate_held(arm)
    return cell(setting(arm.get("name"))) + (" *" if missed else "")


def _latency_table(arms: list[Record]) -> list[str]:
    head = ["arm", "arrivals", "offered/s", "achieved/s", "n", "response p50 ms", "p99", "p99.9", "max",
            "service p50 ms", "p99", "refused", "unanswered"]  # fmt: skip
    rows = [
        [
            _name(arm), setting(arm.get("arrivals")), figure(arm.get("offered_per_s")),
            figure(arm.get("achieved_per_s")), whole(count_of(arm.get("response_ms"))),
            *percentiles(arm.get("response_ms"), *_LONGEST), *percentiles(arm.get("service_ms"), "p50", "p99"),
            whole(arm.get("refused")), whole(arm.get("unanswered")),
        ]
        for arm in arms
    ]  # fmt: skip
    return table(head, rows, left=2)


def _cost_table(arms: list[Record]) -> list[str]:
    head = ["arm", "nodes", "transport", "outbox", "checkpoints", "rows per batch", "client µs/commit",
            "server µs/commit", "WAL bytes/commit"]  # fmt: skip
    rows = [
        [
            _name(arm), setting(arm.get("nodes")), setting(arm.get("transport")), setting(arm.get("outbox")),
            setting(bool(arm.get("checkpoints"))), figure(value_of(arm.get("rows_per_batch"))),
            *(figure(arm.get(name)) for name in ("client_us", "server_us", "wal_bytes")),
        ]
        for arm in arms
    ]  # fmt: skip
    return table(head, rows, left=5)


def _saturation_table(arms: list[Record]) -> list[str]:
    """Write the closed-loop arms: as many commits in flight as there is room for, all the time."""
    head = ["saturation", "in flight", "commits/s", "n", "service p50 ms", "p99", "max", "rows per batch",
            "client µs/commit", "server µs/commit", "WAL bytes/commit"]  # fmt: skip
    rows = [
        [
            cell(setting(arm.get("name"))), whole(arm.get("in_flight")), figure(arm.get("per_s")),
            whole(count_of(arm.get("service_ms"))), *percentiles(arm.get("service_ms"), "p50", "p99", "max"),
            figure(value_of(arm.get("rows_per_batch"))),
            *(figure(arm.get(name)) for name in ("client_us", "server_us", "wal_bytes")),
        ]
        for arm in arms
    ]  # fmt: skip
    return table(head, rows)


def write_references(folder: BenchFolder, picture: str | None) -> list[str]:
    """Write what PostgreSQL does by itself in the same run, and the ratios to it."""
    pgbench, raw = folder.part("reference", "pgbench"), folder.part("reference", "raw_statement")
    per_s = pgbench.get("per_s") or folder.part("b7").get("pgbench_per_s")
    rows = [
        [label, figure(value), times(quotient(value, per_s)), times(quotient(value, raw.get("per_s")))]
        for label, value in throughputs(folder)
    ]
    lines = ["## References of the same run", ""]
    lines += table(["what", "per second", "to pgbench", "to the raw statement"], rows)
    synced = folder.part("reference", "fdatasync_ms")
    lines += [
        "",
        f"pgbench: one transaction for each commit, {setting(pgbench.get('clients'))} clients, "
        f"{whole(pgbench.get('transactions'))} transactions in {setting(pgbench.get('seconds'))} s, latency "
        f"{milliseconds(value_of(pgbench.get('latency_ms')))}. Raw statement: {setting(raw.get('rows'))} rows with one "
        f"statement, again and again, by hand. fdatasync: p50 {milliseconds(synced.get('p50'))}, p99 "
        f"{milliseconds(synced.get('p99'))} (n = {whole(count_of(synced))}).",
    ]
    return [*lines, "", picture or "No plot of throughput: neither the references nor the committer were measured."]


def throughputs(folder: BenchFolder) -> list[tuple[str, float | None]]:
    """Return label and rate of everything that is put beside the references."""
    pgbench, raw = folder.part("reference", "pgbench"), folder.part("reference", "raw_statement")
    b7, engine = folder.part("b7"), folder.part("engine")
    lengths = [figure(arm.get("seconds")) for arm in folder.rows("b7", "saturations")]
    return [
        ("raw multi-row statement, rows", number(raw.get("per_s"))),
        (f"committer at saturation, {lengths[0] if lengths else '10'} s", number(b7.get("saturation_per_s"))),
        ("committer at saturation, 60 s", number(b7.get("saturation_60_per_s"))),
        ("whole engine, steps of three-step flows", number(engine.get("steps_per_s"))),
        ("whole engine for 180 s, steps", number(engine.get("steps_per_s_180"))),
        ("pgbench, one transaction for each commit", number(pgbench.get("per_s") or b7.get("pgbench_per_s"))),
    ]


def write_sustained(folder: BenchFolder, picture: str | None) -> list[str]:
    """Write the long run: windows with and without checkpoints and autovacuum, and what became of the tables."""
    sustained, windows = folder.part("sustained"), folder.rows("sustained", "windows")
    lines = ["## Sustained", ""]
    if not windows:
        return [*lines, "No data: the run has no sustained arm."]
    lines += [
        f"{figure(sustained.get('offered_per_s'))} commits/s for {figure(sustained.get('seconds'))} s, in "
        f"{counted(len(windows), 'window')}.",
        "",
        *table(["windows", "count", "n", "median p50 ms", "median p99 ms", "worst p99 ms", "max ms"],
               _window_rows(windows)),
    ]  # fmt: skip
    lines += ["", picture or "No plot of latency over time: no window has samples."]
    tables = folder.rows("sustained", "tables")
    if not tables:
        return [*lines, "", "No data: the sizes of tables were not recorded."]
    rows = [
        [
            setting(one.get("name")), mebibytes(one.get("bytes_before")), mebibytes(one.get("bytes_after")),
            whole(one.get("dead_tuples")), _percent(one.get("hot_share")),
        ]
        for one in tables
    ]  # fmt: skip
    return [*lines, "", *table(["table", "before", "after", "dead tuples", "HOT updates"], rows)]


def _window_rows(windows: list[Record]) -> list[list[str]]:
    def quiet(window: Record) -> bool:
        return not window.get("checkpoint") and not window.get("autovacuum")

    groups = {
        "quiet": [window for window in windows if quiet(window)],
        "with a checkpoint": [window for window in windows if window.get("checkpoint")],
        "with autovacuum": [window for window in windows if window.get("autovacuum")],
        "all": windows,
    }
    return [_window_row(label, group) for label, group in groups.items()]


def _window_row(label: str, group: list[Record]) -> list[str]:
    def known(name: str) -> list[float]:
        return sorted(value for window in group if (value := number(window.get(name))) is not None)

    def middle(name: str) -> str:
        values = known(name)
        return milliseconds(values[(len(values) - 1) // 2]).removesuffix(" ms") if values else UNKNOWN

    def greatest(name: str) -> str:
        return milliseconds(max(known(name), default=None)).removesuffix(" ms")

    samples = whole(sum(int(window["n"]) for window in group if type(window.get("n")) is int))
    if not group:
        return [label, "0", *[NO_DATA] * 5]
    return [label, whole(len(group)), samples, middle("p50"), middle("p99"), greatest("p99"), greatest("max")]


def _percent(value: object) -> str:
    share = number(value)
    return UNKNOWN if share is None else f"{100 * share:.1f} %"
