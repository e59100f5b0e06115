"""The summary of a full run: every key of the contract, plausible figures, none of them measured."""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]

RATES = (1_000, 5_000, 10_000, 20_000, 30_000)
"""Offered commits a second of the Poisson arms."""
DEPTHS = (1, 20, 200, 2_000, 20_000)
STARTED_AT = "2026-01-05T10:00:00+00:00"


def spread(n: int, p50: float, p99: float, longest: float) -> Record:
    """Return a distribution of `n` samples as the summary writes it."""
    return {"n": n, "p50": p50, "p95": p50 + 0.6 * (p99 - p50), "p99": p99, "p999": 0.4 * p99 + 0.6 * longest,
            "max": longest}  # fmt: skip


def empty() -> Record:
    """Return a distribution without samples."""
    return {"n": 0, "p50": None, "p95": None, "p99": None, "p999": None, "max": None}


def b7_arm(
    name: str, offered: int, *, arrivals: str = "poisson", nodes: int = 1, transport: str = "socket",
    checkpoints: bool = False, p50: float = 0.9, p99: float = 2.4, seconds: float = 15.0, achieved: float | None = None,
) -> Record:  # fmt: skip
    """Return one arm of `b7.arms`."""
    rate = offered * 0.9985 if achieved is None else achieved
    n = round(rate * seconds)
    return {
        "name": name, "arrivals": arrivals, "offered_per_s": offered, "achieved_per_s": rate, "seconds": seconds,
        "nodes": nodes, "transport": transport, "outbox": False, "checkpoints": checkpoints,
        "refused": 0, "unanswered": 0,
        "response_ms": spread(n, p50, p99, 3.5 * p99), "service_ms": spread(n, 0.9 * p50, 0.8 * p99, 3 * p99),
        "rows_per_batch": max(1.4, offered / 900), "client_us": 9.0 + 9_000 / offered,
        "server_us": 11.0 + 22_000 / offered, "wal_bytes": 610.0,
    }  # fmt: skip


def _b7() -> Record:
    p50s, p99s = (0.7, 0.9, 1.3, 3.1, 38.0), (1.9, 2.6, 4.1, 9.5, 96.0)
    arms = [
        b7_arm(f"poisson-{rate}", rate, p50=p50, p99=p99, achieved=27_400.0 if rate == 30_000 else None)
        for rate, p50, p99 in zip(RATES, p50s, p99s, strict=True)
    ]
    arms += [b7_arm(f"fixed-{rate}", rate, arrivals="fixed", p50=0.8, p99=2.2) for rate in (5_000, 10_000)]
    arms += [b7_arm(f"tcp-{rate}", rate, transport="tcp", p50=1.1, p99=3.0) for rate in (5_000, 10_000)]
    arms += [b7_arm(f"two-nodes-{rate}", rate, nodes=2, p50=1.2, p99=3.8) for rate in (5_000, 10_000, 20_000)]
    arms += [b7_arm(f"checkpoints-{rate}", rate, checkpoints=True, p99=6.1, seconds=70.0) for rate in (5_000, 10_000)]
    return {
        "arms": arms, "saturations": [_saturation(10.0, 52_300.0), _saturation(60.0, 44_100.0)],
        "saturation_per_s": 52_300.0, "saturation_60_per_s": 44_100.0, "pgbench_per_s": 6_100.0,
        "pgbench_ratio": 52_300 / 6_100, "knee_per_s": 20_000,
        "absent": [{"name": "outbox", "why": "the runtime has no outbox yet"}],
    }  # fmt: skip


def _saturation(seconds: float, per_s: float) -> Record:
    return {
        "name": f"saturation-{seconds:.0f}s", "seconds": seconds, "in_flight": 2_000, "per_s": per_s, "refused": 0,
        "unanswered": 0, "service_ms": spread(round(per_s * seconds), 37.0, 71.0, 122.0), "rows_per_batch": 410.0,
        "client_us": 9.4, "server_us": 12.1, "wal_bytes": 590.0,
    }  # fmt: skip


def _engine_arm(name: str, steps: int, *, nodes: int = 1, offered: int | None, flows_per_s: float) -> Record:
    flows = round(flows_per_s * 15)
    response = spread(flows, 2.4, 5.1, 11.0) if offered else spread(flows, 170.0, 320.0, 610.0)
    return {
        "name": name, "steps_per_flow": steps, "nodes": nodes, "offered_flows_per_s": offered, "seconds": 15.0,
        "flows": flows, "failed": 0, "steps_per_s": flows_per_s * steps, "flows_per_s": flows_per_s,
        "response_ms": response, "client_us_per_step": 17.5, "server_us_per_step": 21.0,
        "wal_bytes_per_step": 640.0, "round_trips_per_step": 0.011,
    }  # fmt: skip


def _engine() -> Record:
    arms = [
        _engine_arm("closed-3", 3, offered=None, flows_per_s=10_800.0),
        _engine_arm("closed-20", 20, offered=None, flows_per_s=1_900.0),
        _engine_arm("closed-1000", 1_000, offered=None, flows_per_s=41.0),
        _engine_arm("closed-3-two-nodes", 3, nodes=2, offered=None, flows_per_s=11_900.0),
        _engine_arm("closed-3-long", 3, offered=None, flows_per_s=9_000.0),
        _engine_arm("open-50", 3, offered=50, flows_per_s=50.0),
        _engine_arm("open-1000", 3, offered=1_000, flows_per_s=999.0),
        _engine_arm("open-3000", 3, offered=3_000, flows_per_s=2_998.0),
    ]
    return {
        "arms": arms, "steps_per_s": 32_400.0, "flows_per_s": 10_800.0, "steps_per_s_180": 27_000.0,
        "pgbench_ratio": 32_400 / 6_100, "latency_50_ms": spread(1_000, 2.4, 5.1, 9.8),
    }  # fmt: skip


def _b8() -> Record:
    arms = []
    for place, depth in enumerate(DEPTHS):
        n = 1_000
        arms.append({"depth": depth, "load_per_s": 0, "achieved_load_per_s": 0.0, "cache": "warm",
                     "rows_read": n * min(depth, 40), "failed": 0,
                     "ms": spread(n, 0.30 + 0.02 * place, 0.58 + 0.05 * place, 1.9)})  # fmt: skip
        if depth in (20, 2_000, 20_000):
            arms.append({"depth": depth, "load_per_s": 10_000, "achieved_load_per_s": 9_990.0, "cache": "warm",
                         "rows_read": n * min(depth, 40), "failed": 0,
                         "ms": spread(n, 1.05, 2.5 + 0.1 * place, 7.0)})  # fmt: skip
        if depth in (20, 2_000):
            arms.append({"depth": depth, "load_per_s": 0, "achieved_load_per_s": 0.0, "cache": "cold",
                         "rows_read": n * min(depth, 40), "failed": 0,
                         "ms": spread(n, 0.55, 3.1 + place, 12.0)})  # fmt: skip
    return {"arms": arms, "batch": {"instances": 1_000, "ms": spread(10, 24.0, 31.0, 31.0), "us_per_instance": 24.0}}


def _sustained() -> Record:
    windows = []
    for place in range(60):
        during = place % 6 == 5
        vacuum = place in (14, 15, 33, 52)
        p99 = 4.0 + (5.2 if during else 0.0) + (1.5 if vacuum else 0.0) + 0.3 * (place % 3)
        windows.append({"at_s": 10.0 * place, "n": 99_800 + place, "p50": 1.3, "p99": p99, "max": 5 * p99,
                        "checkpoint": during, "autovacuum": vacuum})  # fmt: skip
    tables = [
        {"name": "flow_instance", "bytes_before": 9_200_000, "bytes_after": 61_000_000, "dead_tuples": 51_000,
         "hot_share": 0.991},
        {"name": "flow_step", "bytes_before": 0, "bytes_after": 2_310_000_000, "dead_tuples": 0, "hot_share": None},
    ]  # fmt: skip
    return {"offered_per_s": 10_000, "seconds": 600.0, "windows": windows, "tables": tables}


def _rest() -> Record:
    return {
        "takeover": {"instances": 1_000, "all_finished_ms": spread(10, 112.0, 268.0, 268.0),
                     "seen_ms": spread(10, 7.0, 21.0, 21.0)},
        "renewal": {"leases": 100_000, "ms": spread(200, 0.35, 0.9, 1.4)},
        "death": {"arms": [
            {"name": "idle", "ms": spread(50, 6.0, 19.0, 22.0), "seen": 50},
            {"name": "mid_statement", "ms": spread(50, 8.0, 24.0, 31.0), "seen": 50},
            {"name": "frozen", "ms": spread(5, 2_300.0, 2_900.0, 2_900.0), "seen": 5},
        ]},
        "claims": {"arms": [
            {"parked": parked, "empty_ms": spread(1_000, 0.21, 0.41, 1.1),
             "due_ms": spread(1_000, 0.62, 1.15 + 0.02 * place, 2.9)}
            for place, parked in enumerate((10, 10_000, 1_000_000))
        ]},
    }  # fmt: skip


def _reach() -> list[Record]:
    rows: list[tuple[str, float, str, float | None]] = [
        ("saturation of the committer over 10 s, commits/s", 50_000, "least", 52_300.0),
        ("saturation of the committer over 60 s, commits/s", 40_000, "least", 44_100.0),
        ("saturation over pgbench with one transaction for each commit", 6, "least", 52_300 / 6_100),
        ("response p99 at 5 000 commits/s, ms", 4, "most", 2.6),
        ("response p99 at 10 000 commits/s, ms", 6, "most", 4.1),
        ("three-step flows end to end, steps/s", 30_000, "least", 32_400.0),
        ("three-step flows over 180 s, steps/s", 25_000, "least", 27_000.0),
        ("three-step flow at 50 flows/s, p50, ms", 3, "most", 2.4),
        ("killed node, all instances finished, worst, ms", 200, "most", 268.0),
        ("rehydration p99, idle, warm, worst depth, ms", 1, "most", 0.78),
        ("claim p99, 1 000 000 parked over 10 parked", 1.5, "most", None),
    ]
    return [
        {"figure": figure, "limit": limit, "sense": sense, "reached": reached, "held": _held(reached, limit, sense)}
        for figure, limit, sense, reached in rows
    ]


def _held(reached: float | None, limit: float, sense: str) -> bool:
    if reached is None:
        return False
    return reached >= limit if sense == "least" else reached <= limit


def recorded_summary() -> Record:
    """Return a new summary of a full run that holds everything the contract names."""
    passed = {"verdict": "PASS", "reasons": ["at 5 000/s the response p99 is 2.6 ms, limit 15 ms, rate held"]}
    return {
        "schema": 1, "run_id": "20260105T100000-1", "commit": "0123456789abcdef0123456789abcdef01234567",
        "dirty": False, "quick": False, "seed": 1, "started_at": STARTED_AT,
        "settings": {
            "server_version": "18.1", "fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
            "wal_level": "replica", "shared_buffers": "512MB", "max_wal_size": "4GB", "checkpoint_timeout": "5min",
            "autovacuum": "on", "commit_delay": "0", "data_checksums": "on", "io_method": "worker",
        },
        "reference": {
            "pgbench": {"clients": 32, "seconds": 20, "transactions": 122_000, "per_s": 6_100.0, "latency_ms": 5.24},
            "raw_statement": {"rows": 500, "per_s": 96_000.0},
            "fdatasync_ms": spread(2_000, 0.21, 0.62, 3.8),
        },
        "b7": _b7(), "engine": _engine(), "b8": _b8(), **_rest(), "sustained": _sustained(), "reach": _reach(),
        "verdicts": {"b7": passed, "b8": {"verdict": "PASS", "reasons": ["p99 3.1 ms, limit 8 ms"]},
                     "engine": {"verdict": "PASS", "reasons": ["no flow failed"]},
                     "overall": {"verdict": "PASS", "reasons": ["b7, b8 and engine pass"]}},
    }  # fmt: skip


def recorded_manifest() -> Record:
    """Return the manifest beside it."""
    return {
        "run_id": recorded_summary()["run_id"],
        "settings": dict(recorded_summary()["settings"]),
        "environment": {
            "python": "3.11.7", "system": "Linux 6.1 x86_64", "cpus": 2, "cpus_usable": 2,
            "cpu_model": "Example 2.5 GHz", "memory_kb": "8000000", "load_average_1m": 0.2,
            "packages": {"ninelives": "0.1.0", "psycopg": "3.2.3", "orjson": "3.10", "uvloop": "0.21"},
        },
    }  # fmt: skip
