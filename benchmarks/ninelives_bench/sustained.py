"""Step commits at one rate for long, with checkpoints and autovacuum: does the latency stay, and what grows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import psycopg

from ninelives_bench.checkpoints import LOGGED, Spell, read_spells
from ninelives_bench.committer import order_for
from ninelives_bench.committer_arms import Arm
from ninelives_bench.committer_load import Observed
from ninelives_bench.committer_nodes import Nodes
from ninelives_bench.committer_population import insert_population
from ninelives_bench.distribution import Samples, distribution
from ninelives_bench.ground import Ground
from ninelives_bench.samples import SampleStore
from ninelives_bench.suite import Plan
from ninelives_bench.suite_progress import say
from ninelives_bench.tables import describe_growth, look_at_tables

_LEAD_S: Final = 0.05
_FLUSHED: Final = "select pg_stat_force_next_flush()"


def measure(ground: Ground, plan: Plan, samples: SampleStore) -> dict[str, Any]:
    """Commit at the plan's rate; returns the part `sustained` of the summary."""
    sustained = plan.sustained
    arm = Arm("sustained", "poisson", sustained.rate_per_s, sustained.seconds)
    timing = {"checkpoint_timeout": f"{sustained.checkpoint_timeout_s}s"}
    with server_settings(ground, LOGGED | timing), Nodes(1) as nodes, ground.database() as dsn:
        population = insert_population(dsn, arm.population(plan.b7))
        before = look_at_tables(dsn)
        nodes.prepare([order_for(dsn, population.split(1)[0], arm, plan, plan.seed * 10_000 + 9_000)])
        begin, began_at = time.perf_counter() + _LEAD_S, time.time() + _LEAD_S
        (observed,) = nodes.measure(begin, arm.seconds)
        spells = read_spells(ground.server.log, time.time())
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(_FLUSHED)
        after = look_at_tables(dsn)
        nodes.release()
    windows, columns = describe_windows(observed, sustained.window_s, spells, began_at)
    samples.save("sustained", columns)
    for window in windows:
        say(_line(window))
    answered = int(np.count_nonzero(~np.isnan(observed.answered_s)))
    return {
        "offered_per_s": sustained.rate_per_s, "achieved_per_s": answered / arm.seconds, "seconds": arm.seconds,
        "refused": observed.refused, "unanswered": len(observed.due_s) - answered,
        "response_ms": distribution(columns["response_ms"]),
        "windows": windows, "tables": describe_growth(before, after),
        "background": [
            {"what": spell.what, "at_s": spell.begin - began_at, "seconds": spell.end - spell.begin}
            for spell in spells if spell.end > began_at
        ],
    }  # fmt: skip


def describe_windows(
    observed: Observed, window_s: float, spells: Sequence[Spell], began_at: float
) -> tuple[list[dict[str, Any]], dict[str, Samples]]:
    """Cut a phase into windows by the time of arrival, each with its percentiles and what the server did meanwhile."""
    until = np.where(np.isnan(observed.answered_s), observed.ended_s, observed.answered_s)
    response_ms = (until - observed.due_s) * 1e3
    edges = np.arange(0.0, observed.seconds, window_s)
    places = np.searchsorted(observed.due_s, [*edges, observed.seconds])
    windows = []
    for at, low, high in zip(edges, places, places[1:], strict=False):
        found = distribution(response_ms[low:high])
        begin = began_at + float(at)
        working = {spell.what for spell in spells if spell.overlaps(begin, begin + window_s)}
        windows.append(
            {
                "at_s": float(at), **{key: found[key] for key in ("n", "p50", "p99", "max")},
                "checkpoint": "checkpoint" in working,
                "autovacuum": any(what.startswith("vacuum") for what in working),
                "background": sorted(working),
            }
        )  # fmt: skip
    return windows, {"due_s": observed.due_s, "response_ms": response_ms}


@contextmanager
def server_settings(ground: Ground, settings: Mapping[str, str]) -> Iterator[None]:
    """Let the server work under other settings for a while."""
    before = {name: ground.server.options.get(name, _DEFAULTS[name]) for name in settings}
    ground.server.configure(settings)
    ground.server.reload()
    try:
        yield
    finally:
        ground.server.configure(before)
        ground.server.reload()


_DEFAULTS: Final = {"checkpoint_timeout": "5min", "log_checkpoints": "on", "log_autovacuum_min_duration": "10min"}


def _line(window: Mapping[str, Any]) -> str:
    if not window["n"]:
        return f"sustained {window['at_s']:.0f} s: no samples"
    work = f"; {', '.join(window['background'])}" if window["background"] else ""
    return (
        f"sustained {window['at_s']:.0f} s: p50 {window['p50']:.2f} ms, p99 {window['p99']:.2f} ms,"
        f" max {window['max']:.1f} ms{work}"
    )


if __name__ == "__main__":
    from ninelives_bench.sustained_commands import app

    app()
