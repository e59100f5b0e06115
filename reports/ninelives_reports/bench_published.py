"""Journal figures that others published, or that were measured of them: facts with their source."""

from __future__ import annotations

FLOWX_CORES = 4
FLOWX_OFFERED_PER_S = 5_000
FLOWX_ACHIEVED_PER_S = 4_103.0
FLOWX_SERVICE_P99_MS = 14.146
FLOWX_RESPONSE_P99_MS = 1_271.7
FLOWX_B8_P99_MS = 3.634
FLOWX_B8_DEPTH = 20
FLOWX_B8_INSTANCES = 2_000

B7_LIMIT_MS = 15.0
"""Response p99 at `B7_RATE_PER_S` commits a second and node."""
B7_RATE_PER_S = 5_000
B8_LIMIT_MS = 8.0

FLOWX_SOURCE = (
    "FlowX (github.com/KhaiTrang1995/NexusFlow), its record of B7 and B8: 4 cores, one transaction for each commit.",
    "Its B7 run did not hold the offered rate, and its own verdict was INCONCLUSIVE.",
)

PEERS_SOURCE = (
    "Measured by this project on 2 cores, PostgreSQL 15.18 with `fsync` and `synchronous_commit` on, trivial steps",
    "with results of about 200 bytes, one run of 6 to 10 s each, so that 10 % more or less mean nothing. dbos 3.4.0,",
    "absurd-sdk 0.5.1, openworkflow 0.10.1, procrastinate 3.10.0; Restate server 1.7.12 keeps a log of its own.",
)
# Engine, steps/s in flows of 3 and of 20 steps, a three-step flow from start to finish, resuming 2 000 steps.
PEERS: tuple[tuple[str, ...], ...] = (
    ("Restate", "2 248", "4 735", "8.4 ms, p99 13.9 ms", "65 to 155 ms"),
    ("OpenWorkflow", "1 466", "2 244", "50 ms", "refused: at most 1 000 steps"),
    ("Absurd", "920", "1 825", "6.6 ms, p99 10.6 ms", "34 to 40 ms"),
    ("Procrastinate, chained jobs", "398", "–", "13.3 ms", "–"),
    ("DBOS", "343", "363", "13.3 ms, p99 35 ms", "2.7 s"),
)
