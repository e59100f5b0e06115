"""Figures that others published, or that were measured of them: facts with their source, and no sentence of theirs."""

from __future__ import annotations

FLOWX_SOURCE = (
    "FlowX (github.com/KhaiTrang1995/NexusFlow), `docs/benchmarks/QR2-chaos.md`, recorded 2026-08-01: 4 logical cores",
    "at a one-minute load of 36.2, PostgreSQL 16.13, 328 s for both arms.",
)

# Rows of the record at 10 000 flows: label, before-commit, after-commit.
FLOWX_QR2: tuple[tuple[str, str, str], ...] = (
    ("flows asked for", "10 000", "10 000"),
    ("completed", "9 939", "9 943"),
    ("never opened", "61", "57"),
    ("lost", "0", "0"),
    ("orphan effects", "0", "0"),
    ("nodes killed, all proved by exit status", "97", "97"),
    ("effects", "30 077", "30 015"),
    ("repeated in the documented window", "260", "186"),
    ("repeated against the guarantee", "0", "0"),
    ("repeated between live workers", "0", "0"),
    ("flows recovered", "489", "502"),
    ("flows left behind by each kill", "5.0", "5.2"),
    ("takeover p50", "30.7 s", "30.9 s"),
    ("takeover p99", "32.9 s", "32.5 s"),
    ("resume p50", "30.7 s", "30.8 s"),
    ("resume p95", "32.6 s", "32.3 s"),
    ("resume p99", "32.9 s", "32.6 s"),
    ("resume max", "33.1 s", "32.7 s"),
    ("lease TTL", "30 s", "30 s"),
    ("workers × flows in flight", "3 × 6", "3 × 6"),
    ("recovery nodes × flows each", "2 × 24", "2 × 24"),
    ("recovery scan every", "3 s", "3 s"),
    ("recovery nodes killed", "none", "none"),
)

# Their other runs: flows, recovery capacity, scan interval, kills, resume p99 of both arms.
FLOWX_CAPACITY: tuple[tuple[str, ...], ...] = (
    ("10 000", "2 × 24", "3 s", "97", "32.9 / 32.6 s"),
    ("200", "2 × 8", "5 s", "16", "42.9 / 48.1 s"),
    ("500", "2 × 4", "5 s", "18", "69.9 / 68.8 s"),
)

# 60 flows, one at a time, 20 kills: duplicates before the commit, after it, time to the next effect.
FLOWX_ISOLATED = ("FlowX (published; TTL 10 s, scan 2 s)", "20", "0", "30.7 s median, 32.9 s p99 at TTL 30 s")

PEERS_SOURCE = (
    "Peers: measured by this project on 2 cores, PostgreSQL 15.18 with `fsync` and `synchronous_commit` on, one run",
    "each: dbos 3.4.0, absurd-sdk 0.5.1, openworkflow 0.10.1, procrastinate 3.10.0; Restate server 1.7.12 keeps a log",
    "of its own. The first time is with default settings, the second the fastest that was reached.",
)
PEERS_ISOLATED: tuple[tuple[str, ...], ...] = (
    ("Restate", "20", "0", "0.58 s"),
    ("Absurd", "20", "0", "120 s / 1.08 s"),
    ("OpenWorkflow", "20", "0", "30 s, fixed"),
    ("DBOS", "20", "0", "never by itself / 0.1 s with a private call"),
    ("Procrastinate", "20", "19", "never by itself / 1.0 s with user code"),
)
