"""Commits for long: windows by arrival, and what the server did meanwhile, from its own log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ninelives_bench import sustained
from ninelives_bench.checkpoints import Spell, read_spells, spells_of
from ninelives_bench.committer_load import Observed
from ninelives_bench.ground import Ground
from ninelives_bench.samples import SampleStore
from ninelives_bench.suite import Plan, SustainedPlan

LOG = """\
2026-12-01 04:00:00.000 UTC [11] LOG:  checkpoint starting: time
2026-12-01 04:00:04.500 UTC [11] LOG:  checkpoint complete: wrote 91 buffers (0.6%); write=4.1 s, total=4.5 s
2026-12-01 04:00:10.000 UTC [12] LOG:  automatic vacuum of table "bench_3.ninelives.flow_step": index scans: 0
\tpages: 0 removed, 1694 remain, 1694 scanned (100.00% of total), 0 eagerly scanned
\tsystem usage: CPU: user: 0.01 s, system: 0.00 s, elapsed: 1.25 s
2026-12-01 04:00:11.000 UTC [12] LOG:  automatic analyze of table "bench_3.pg_catalog.pg_constraint"
\tsystem usage: CPU: user: 0.01 s, system: 0.00 s, elapsed: 0.02 s
2026-12-01 04:00:12.000 UTC [13] postgres ERROR:  something else, elapsed: 9.00 s
2026-12-01 04:00:20.000 UTC [11] LOG:  checkpoint starting: wal
"""
AT = 1_796_097_600.0
"""Four o'clock of that day."""


def test_the_log_tells_of_checkpoints_and_vacuums() -> None:
    assert spells_of(LOG.splitlines(keepends=True), AT + 21) == [
        Spell("checkpoint", AT, AT + 4.5),
        Spell("vacuum flow_step", AT + 8.75, AT + 10),
        Spell("checkpoint", AT + 20, AT + 21),
    ]


def test_a_spell_overlaps_what_it_touches() -> None:
    spell = Spell("checkpoint", 10.0, 20.0)
    assert [spell.overlaps(at, at + 5) for at in (0.0, 6.0, 12.0, 19.0, 20.0)] == [False, True, True, True, False]


def test_windows_are_cut_by_arrival_and_a_missing_answer_has_waited_to_the_end() -> None:
    due = np.array([0.1, 0.9, 1.1, 1.9])
    answered = np.array([0.102, 1.4, np.nan, 1.901])
    observed = Observed(2.0, due, due, answered, ended_s=4.0)
    spells = [Spell("checkpoint", 100.5, 100.6), Spell("vacuum flow_step", 101.5, 101.6)]
    (first, second), columns = sustained.describe_windows(observed, 1.0, spells, 100.0)
    assert (first["n"], first["checkpoint"], first["autovacuum"]) == (2, True, False)
    assert first["max"] == pytest.approx(500.0)
    assert (second["n"], second["checkpoint"], second["autovacuum"]) == (2, False, True)
    assert second["max"] == pytest.approx(2900.0)
    assert len(columns["response_ms"]) == 4


@pytest.mark.postgres
def test_a_short_run_on_a_server(ground: Ground, tiny_plan: Plan, samples: SampleStore) -> None:
    before = ground.server.options
    plan = replace(tiny_plan, sustained=SustainedPlan(400, 1.0, 0.5, 30))
    found = sustained.measure(ground, plan, samples)
    assert [window["n"] for window in found["windows"]] and sum(w["n"] for w in found["windows"]) == 400
    assert (found["refused"], found["unanswered"]) == (0, 0)
    (steps,) = [table for table in found["tables"] if table["name"] == "flow_step"]
    assert steps["bytes_after"] > steps["bytes_before"]
    assert samples.saved["sustained"] == 400
    assert {name: ground.server.options[name] for name in before} == before


def test_a_log_that_is_cut_in_the_middle_of_an_entry(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(LOG[: LOG.index("\tsystem usage")])
    assert read_spells(log, AT) == [Spell("checkpoint", AT, AT + 4.5)]
