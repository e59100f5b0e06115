"""Trials: what they are told on the command line, what is counted, and what is read from the server's own words."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import psycopg
import pytest
from typer.testing import CliRunner

from ninelives_bench.ground import Ground
from ninelives_bench.sustained_commands import app, pair_of, storage_of
from ninelives_bench.sustained_counters import checkpoints_of, counted_since, look_at_counters, vacuums_of
from ninelives_bench.sustained_trial import Trial, fill_segments, run_trial, set_storage, spikes_of
from ninelives_bench.sustained_watch import (
    NO_PROCESSOR,
    NODE,
    Doing,
    Seen,
    ServerWatch,
    Used,
    kind_of,
    processor_s,
    processor_shares,
    share_of_waits,
    stalls,
    used_by,
)

LINE_18 = (
    "LOG:  checkpoint complete: wrote 28548 buffers (87.1%), wrote 3 SLRU buffers; 1 WAL file(s) added, 2 removed,"
    " 37 recycled; write=26.637 s, sync=0.657 s, total=27.601 s; sync files=60, longest=0.063 s, average=0.011 s;"
)
LINE_16 = (
    "LOG:  checkpoint complete: wrote 91 buffers (0.6%); 0 WAL file(s) added, 0 removed, 1 recycled;"
    " write=4.100 s, sync=0.010 s, total=4.500 s; sync files=7, longest=0.004 s, average=0.001 s;"
)


def test_the_log_of_both_releases_tells_what_a_checkpoint_did_to_the_wal() -> None:
    first, second = checkpoints_of([LINE_18, "LOG:  checkpoint starting: time", LINE_16])
    assert (first["added"], first["removed"], first["recycled"], first["longest_sync_s"]) == (1, 2, 37, 0.063)
    assert (second["buffers"], second["recycled"], second["write_s"]) == (91, 1, 4.1)


def test_the_log_tells_how_much_wal_a_vacuum_wrote() -> None:
    lines = [
        'LOG:  automatic vacuum of table "bench_3.ninelives.flow_step": index scans: 0',
        "\tpages: 0 removed, 1694 remain, 1690 scanned (99.76% of total), 0 eagerly scanned",
        "\tWAL usage: 3390 records, 1688 full page images, 13721804 bytes, 0 buffers full",
        "\tsystem usage: CPU: user: 0.01 s, system: 0.00 s, elapsed: 1.25 s",
        'LOG:  automatic analyze of table "bench_3.ninelives.flow_step"',
        "\tWAL usage: 9 records, 9 full page images, 9 bytes",
    ]
    assert vacuums_of(lines) == [
        {"table": "flow_step", "pages": 1690, "records": 3390, "full_pages": 1688, "wal_bytes": 13721804,
         "seconds": 1.25}
    ]  # fmt: skip


def test_settings_and_storage_parameters_are_split() -> None:
    assert pair_of("min_wal_size=2GB", "--set") == ("min_wal_size", "2GB")
    assert storage_of("flow_step:toast.autovacuum_enabled=off") == ("flow_step", "toast.autovacuum_enabled", "off")
    for wrong in ("flow_step", "flow_step:", "flow_step:fillfactor", ":fillfactor=50", "flow_step:fillfactor="):
        with pytest.raises(ValueError, match="write"):
            storage_of(wrong)


def test_a_wrong_setting_is_refused_before_a_server_is_made() -> None:
    answer = CliRunner().invoke(app, ["--set", "min_wal_size"])
    assert answer.exit_code == 2 and "write name=value" in answer.output


def test_only_a_tenth_with_a_slow_response_is_a_spike() -> None:
    due = np.array([0.01, 0.05, 0.15, 0.31])
    assert spikes_of(due, np.array([1.0, 25.0, 19.0, 300.0]), 0.5) == [(0.0, 25.0), (0.3, 300.0)]


def test_processes_are_named_by_what_they_do() -> None:
    assert kind_of("client backend", "ninelives node", "") == NODE
    assert kind_of("client backend", "psql", "") == "other backend"
    vacuum = "autovacuum: VACUUM ninelives.flow_step (to prevent wraparound)"
    assert kind_of("autovacuum worker", "", vacuum) == "vacuum ninelives.flow_step"
    assert kind_of("autovacuum worker", "", "") == "autovacuum worker"


def test_a_stalled_transaction_is_told_apart_from_one_without_a_processor() -> None:
    doing = [
        Doing(10.00, NODE, "IO WalSync", age_ms=3.0),
        Doing(10.02, NODE, "IO WalSync", age_ms=25.0, ready=0.25),
        Doing(10.04, NODE, "IO WalSync", age_ms=45.0),
        Doing(10.04, "checkpointer", "IO DataFileSync", age_ms=900.0),
        Doing(11.00, NODE, "IO WalSync", age_ms=80.0),
    ]
    first, second = stalls(Seen([], doing, []), 10.0, 10.5)
    assert (first["what"], first["seconds"], first["looks"]) == ("IO WalSync", pytest.approx(0.035), 2)
    assert first["oldest_ms"] == 45.0
    assert (second["what"], second["seconds"]) == (NO_PROCESSOR, pytest.approx(0.005))


def test_waits_are_averages_over_the_looks_of_a_stretch() -> None:
    seen = Seen([1.0, 1.5, 2.5], [Doing(1.0, NODE, "running"), Doing(2.5, NODE, "running")], [])
    assert share_of_waits(seen, [(1.0, 2.0)]) == [{"who": NODE, "what": "running", "processes": 0.5}]
    assert share_of_waits(seen, []) == []


def test_processor_time_is_that_of_processes_seen_before() -> None:
    used = used_by({1: NODE, 2: "node"}, {1: (1.0, 2.0)}, {1: (1.5, 2.25), 2: (9.0, 9.0)})
    assert used == {NODE: Used(0.5, 0.25)}
    looks = [(10.0, {}, 0.0), (11.0, used, 0.8), (12.0, used, 0.8)]
    told = processor_shares(Seen([], [], looks), 9.0, 13.0)
    assert told["processors"][NODE] == {"running": pytest.approx(0.5), "ready": pytest.approx(0.25)}
    assert told["of_others"] == pytest.approx(0.3)
    assert processor_shares(Seen(), 0.0, 1.0) == {}


def test_the_processor_time_of_a_process() -> None:
    told = processor_s(os.getpid())
    assert told is not None and told[0] > 0
    assert processor_s(2**22 + 1) is None


@pytest.mark.postgres
def test_counters_tell_of_wal_whatever_the_release(ground: Ground) -> None:
    before = look_at_counters(ground.server.dsn)
    fill_segments(ground.server.dsn, 2)
    changed = counted_since(before, look_at_counters(ground.server.dsn))
    assert changed["pg_stat_wal.wal_records"] >= 2
    assert any(name.endswith(("num_requested", "checkpoints_req")) for name in changed)


@pytest.mark.postgres
def test_a_watch_sees_who_waits_for_whom(ground: Ground) -> None:
    with psycopg.connect(ground.server.dsn, application_name="ninelives test") as one, ServerWatch(ground) as watch:
        one.execute("select pg_sleep_for('0 s')")
        one.execute("select count(*) from generate_series(1, 2000000)")
        time.sleep(0.1)
    assert len(watch.seen.moments) > 3
    assert any(found.who == NODE and found.what == "running" for found in watch.seen.doing)
    assert watch.seen.cpu and watch.error is None


@pytest.mark.postgres
def test_a_storage_parameter_is_set(ground: Ground) -> None:
    with ground.database() as dsn:
        set_storage(dsn, "flow_step", "autovacuum_enabled", "off")
        with psycopg.connect(dsn) as connection:
            row = connection.execute(
                "select reloptions from pg_class where oid = 'ninelives.flow_step'::regclass"
            ).fetchone()
    assert row is not None and "autovacuum_enabled=off" in row[0]


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.parametrize("flows", [False, True])
def test_a_trial_on_a_server_of_its_own(flows: bool) -> None:
    trial = Trial(
        200, 1.0, flows, saturate_s=0.3, in_flight=20, recycled=2, window_s=0.5,
        settings={"min_wal_size": "64MB"}, storage=(("flow_step", "fillfactor", "90"),),
        checkpoint_first=True, vacuumed_later=("flow_step",),
    )  # fmt: skip
    found = run_trial(trial)
    assert (found["failed"], found["unanswered"]) == (0, 0)
    assert found["response_ms"]["n"] == sum(window["n"] for window in found["windows"]) == 200
    assert {table["name"] for table in found["tables"]} >= {"flow_step"}
    assert found["counters"]["pg_stat_wal.wal_records"] > 200
    assert all(window["dirty_mb"] is None or window["dirty_mb"] >= 0 for window in found["windows"])
    assert found["processors"][NODE]["running"] > 0


@pytest.mark.postgres
@pytest.mark.slow
def test_the_command_line_says_and_keeps_what_it_found(tmp_path: Path) -> None:
    out = tmp_path / "trial.json"
    answer = CliRunner().invoke(app, ["--rate", "200", "--seconds", "0.6", "--window", "0.3", "--out", str(out)])
    assert answer.exit_code == 0, answer.output
    found = json.loads(out.read_text())
    assert found["response_ms"]["n"] == 120
