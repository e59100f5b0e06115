"""One trial: a load at one rate under chosen settings, perhaps behind a saturation, and what the server did."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final

import numpy as np
import psycopg
from psycopg import sql

from ninelives_bench.checkpoints import LOGGED, Spell, read_spells
from ninelives_bench.committer_load import ClosedLoop, Observed, OpenLoop
from ninelives_bench.committer_nodes import Measured, Nodes, Order, WarmUp
from ninelives_bench.committer_population import insert_population
from ninelives_bench.distribution import distribution
from ninelives_bench.engine_load import FlowOrder, FlowsSeen, run_flows
from ninelives_bench.ground import open_ground
from ninelives_bench.pacer import poisson
from ninelives_bench.sustained import describe_windows
from ninelives_bench.sustained_counters import checkpoints_of, counted_since, look_at_counters, vacuums_of
from ninelives_bench.sustained_watch import Seen, ServerWatch, processor_shares, share_of_waits, stalls
from ninelives_bench.tables import describe_growth, look_at_tables

_LEAD_S: Final = 0.05
_BIN_S: Final = 0.1
_SATURATED_PER_S: Final = 60_000
_DEPTH_MAX: Final = 64
_FILL: Final = 0.8
_STEPS: Final = 3
SPIKE_MS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Trial:
    """What is tried."""

    rate_per_s: int = 10_000
    seconds: float = 60.0
    flows: bool = False
    """Whole flows of three steps instead of step commits."""
    saturate_s: float = 0.0
    in_flight: int = 2_000
    recycled: int = 0
    """So many WAL segments are filled before, so that a checkpoint has them to recycle; see ``min_wal_size``."""
    window_s: float = 5.0
    postgres: str | None = None
    seed: int = 1
    settings: dict[str, str] = field(default_factory=dict)
    """Of the server, over the rig's own."""
    storage: tuple[tuple[str, str, str], ...] = ()
    """Parameters of tables: name of the table, of the parameter, value."""
    checkpoint_first: bool = False
    """A checkpoint between the saturation and the measured phase: every page then costs a full image again."""
    vacuumed_later: tuple[str, ...] = ()
    """Tables that autovacuum leaves alone until the measured phase begins, so that it comes within it."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The measured phase in the server's time, and what was seen of it."""

    observed: Observed
    began_at: float
    spells: list[Spell]
    seen: Seen


def run_trial(trial: Trial) -> dict[str, Any]:
    """Make a server, saturate it, load it, and tell what came of it."""
    with (
        open_ground(postgres=trial.postgres, options=LOGGED | {"track_wal_io_timing": "on"} | trial.settings) as ground,
        ground.database() as dsn,
    ):
        off = tuple((table, "autovacuum_enabled", "off") for table in trial.vacuumed_later)
        for table, name, value in trial.storage + off:
            set_storage(dsn, table, name, value)
        fill_segments(ground.server.dsn, trial.recycled)
        with _loaded(trial, dsn) as nodes:
            if trial.checkpoint_first:
                with psycopg.connect(dsn, autocommit=True) as connection:
                    connection.execute("checkpoint")
            for table in trial.vacuumed_later:
                set_storage(dsn, table, "autovacuum_enabled", "on")
            before, tables = look_at_counters(ground.server.dsn), look_at_tables(dsn)
            log_bytes = ground.server.log.stat().st_size
            with ServerWatch(ground, _node_processes) as watch:
                begin, began_at = time.perf_counter() + _LEAD_S, time.time() + _LEAD_S
                (answer,) = nodes.measure(begin, trial.seconds)
            counters = counted_since(before, look_at_counters(ground.server.dsn))
            growth = describe_growth(tables, look_at_tables(dsn))
            spells = read_spells(ground.server.log, time.time())
            logged = ground.server.log.read_bytes()[log_bytes:].decode(errors="replace").splitlines()
            nodes.release()
    stretch = Stretch(_observed(answer), began_at, spells, watch.seen)
    return _told(trial, stretch) | {
        "failed": answer.failed if isinstance(answer, FlowsSeen) else answer.refused,
        "tables": growth, "checkpoints": checkpoints_of(logged), "vacuums": vacuums_of(logged), "counters": counters,
    }  # fmt: skip


def set_storage(dsn: str, table: str, name: str, value: str) -> None:
    """Set a storage parameter of one of the runtime's tables."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            sql.SQL("alter table {} set ({} = {})").format(
                sql.Identifier("ninelives", table), sql.Identifier(*name.split(".")), sql.Literal(value)
            )
        )


def fill_segments(dsn: str, count: int) -> None:
    """Go through so many WAL segments, almost empty, and checkpoint behind them."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for _ in range(count):
            connection.execute("select pg_logical_emit_message(true, 'bench', 'x')")
            connection.execute("select pg_switch_wal()")
        if count:
            connection.execute("checkpoint")


@contextmanager
def _loaded(trial: Trial, dsn: str) -> Iterator[Nodes]:
    """A node that has saturated the server and is ready for the measured phase."""
    warmup = ClosedLoop(trial.in_flight, trial.saturate_s) if trial.saturate_s else _open(trial, 1.0, trial.seed + 1)
    measured = _open(trial, trial.seconds, trial.seed)
    order: FlowOrder | Order
    if trial.flows:
        order = FlowOrder(dsn, _STEPS, False, warmup, measured)
    else:
        commits = _SATURATED_PER_S * trial.saturate_s + trial.rate_per_s * (trial.seconds + 1)
        count = max(trial.in_flight * 10, ceil(commits / (_FILL * _DEPTH_MAX)))
        population = insert_population(dsn, count)
        order = Order(dsn, population, WarmUp(warmup), Measured(measured), _DEPTH_MAX, 200, trial.seed)
    with Nodes(1, run_flows if trial.flows else None) as nodes:
        nodes.prepare([order])
        yield nodes


def _open(trial: Trial, seconds: float, seed: int) -> OpenLoop:
    return OpenLoop(poisson(trial.rate_per_s, seconds, seed), seconds)


def _node_processes() -> list[tuple[str, int]]:
    return [("node", process.pid) for process in multiprocessing.active_children() if process.pid is not None]


def _observed(answer: Observed | FlowsSeen) -> Observed:
    if isinstance(answer, Observed):
        return answer
    return Observed(answer.seconds, answer.due_s, answer.due_s, answer.done_s, answer.ended_s)


def _told(trial: Trial, stretch: Stretch) -> dict[str, Any]:
    observed, began_at, seen = stretch.observed, stretch.began_at, stretch.seen
    windows, columns = describe_windows(observed, trial.window_s, stretch.spells, began_at)
    for window in windows:
        begin = began_at + window["at_s"]
        end = begin + trial.window_s
        kept = [(dirty, writing) for at, dirty, writing in seen.unwritten if begin <= at < end]
        window |= processor_shares(seen, begin, end) | {
            "stalls": stalls(seen, begin, end)[:5],
            "dirty_mb": max((one[0] for one in kept), default=None),
            "writing_mb": max((one[1] for one in kept), default=None),
        }
    spikes = spikes_of(observed.due_s, columns["response_ms"], observed.seconds)
    spans = [(began_at + at, began_at + at + max(_BIN_S, worst_ms / 1e3)) for at, worst_ms in spikes]
    whole = [(began_at, began_at + observed.seconds)]
    answered = int(np.count_nonzero(~np.isnan(observed.answered_s)))
    return {
        "achieved_per_s": answered / observed.seconds, "unanswered": len(observed.due_s) - answered,
        "response_ms": distribution(columns["response_ms"]), "windows": windows,
        "spikes": [{"at_s": at, "worst_ms": worst, "during": _during(stretch, at, worst)} for at, worst in spikes],
        "stalls": stalls(seen, *whole[0]),
        "spike_s": len(spikes) * _BIN_S,
        "waits_in_spikes": share_of_waits(seen, spans)[:25], "waits": share_of_waits(seen, whole)[:25],
        **processor_shares(seen, *whole[0]),
        "background": [
            {"what": spell.what, "at_s": spell.begin - began_at, "seconds": spell.end - spell.begin}
            for spell in stretch.spells if spell.end > began_at
        ],
    }  # fmt: skip


def spikes_of(due_s: Any, response_ms: Any, seconds: float) -> list[tuple[float, float]]:
    """Return the tenths of a second in which some response took longer than `SPIKE_MS`, with the longest."""
    edges = np.arange(0.0, seconds, _BIN_S)
    places = np.searchsorted(due_s, [*edges, seconds])
    found = []
    for at, low, high in zip(edges, places, places[1:], strict=False):
        worst = float(response_ms[low:high].max()) if high > low else 0.0
        if worst > SPIKE_MS:
            found.append((round(float(at), 1), worst))
    return found


def _during(stretch: Stretch, at: float, worst_ms: float) -> list[str]:
    begin = stretch.began_at + at
    return sorted({spell.what for spell in stretch.spells if spell.overlaps(begin, begin + worst_ms / 1e3)})
