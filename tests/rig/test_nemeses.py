"""Each nemesis does to a real server or process what it tells of, its proof shows it, and healing undoes it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, cast

import orjson
import psycopg
import pytest
from tests.cluster.helpers import wait_until

from ninelives_rig.campaign import Disturbance
from ninelives_rig.cluster.server import PostgresServer
from ninelives_rig.disturb import Disturbances
from ninelives_rig.evidence.spec import FAULT_EVENTS
from ninelives_rig.identity import ProcessIdentity
from ninelives_rig.nemesis import NEMESES, Ground, Nemesis
from ninelives_rig.recorder import Recorder
from ninelives_rig.rundir import RunDirectory

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def own_server(run_directory: RunDirectory) -> Iterator[PostgresServer]:
    """A server that may be crashed."""
    with PostgresServer.create(run_directory, name="nemeses", options={"max_connections": 12}) as server:
        yield server


@pytest.fixture
def ground(own_server: PostgresServer, tmp_path: Path) -> Ground:
    """The ground of this server, without nodes."""
    return Ground(
        cast(Any, Fleet()),
        lambda process: True,
        Recorder(tmp_path, "coordinator"),
        Random(1),
        own_server.dsn,
        own_server,
    )


@dataclass
class Fleet:
    """Nodes that a nemesis may choose from."""

    nodes: list[Any] = field(default_factory=list)


@dataclass
class Order:
    process: str
    role: str = "worker"
    work_root: Path = Path("/nonexistent")


@dataclass
class Stand:
    """A node that is only a process."""

    order: Order
    identity: ProcessIdentity
    retired: bool = False


def begin(action: str, ground: Ground, turn: int = 0) -> Nemesis:
    nemesis = NEMESES[action](ground, Disturbance(action, 0.0, "worker", 0.1), turn)
    assert nemesis.begin()
    return nemesis


def events(history: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (history / "coordinator.jsonl").read_bytes().splitlines()]


def check_told(history: Path, action: str) -> None:
    """What was told is what the checker of disturbances asks for."""
    told = FAULT_EVENTS[action]
    found = [(event["event"], event["proof"]) for event in events(history)]
    assert [name for name, _ in found] == [told.begun, *([told.over] if told.over else [])]
    for (_, proof), pattern in zip(found, (told.shows, told.over_shows), strict=False):
        assert re.fullmatch(pattern, proof), (pattern, proof)


def ask(dsn: str, statement: str) -> object:
    with psycopg.connect(dsn, autocommit=True, connect_timeout=2) as connection:
        cursor = connection.execute(statement.encode())
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


@pytest.mark.parametrize("action", ["crash", "restart"])
def test_a_server_that_is_taken_away_answers_nobody_until_it_is_given_back(
    action: str, ground: Ground, tmp_path: Path
) -> None:
    ask(ground.dsn, f'create table "{action}" (one int)')
    held = psycopg.connect(ground.dsn, autocommit=True)
    nemesis = begin(action, ground)
    assert nemesis.silences
    with pytest.raises(psycopg.OperationalError):
        ask(ground.dsn, "select 1")
    with pytest.raises(psycopg.OperationalError):
        held.execute("select 1")
    nemesis.heal()
    assert ask(ground.dsn, f'select count(*) from "{action}"') == 0  # what was committed is there
    check_told(tmp_path, action)


def test_a_frozen_server_accepts_and_says_nothing(ground: Ground, tmp_path: Path) -> None:
    nemesis = begin("freeze-server", ground)
    with pytest.raises(psycopg.errors.ConnectionTimeout):
        ask(ground.dsn, "select 1")
    nemesis.heal()
    assert ask(ground.dsn, "select 1") == 1
    check_told(tmp_path, "freeze-server")


def test_a_read_only_server_refuses_writes(ground: Ground, tmp_path: Path) -> None:
    nemesis = begin("read-only", ground)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        ask(ground.dsn, "create table refused (one int)")
    nemesis.heal()
    ask(ground.dsn, "create table accepted (one int)")
    check_told(tmp_path, "read-only")


def test_an_impatient_server_ends_what_takes_long(ground: Ground, tmp_path: Path) -> None:
    nemesis = begin("impatient", ground)
    with pytest.raises(psycopg.errors.QueryCanceled):
        ask(ground.dsn, "select pg_sleep(30)")
    nemesis.heal()
    assert ask(ground.dsn, "show statement_timeout") == "0"
    check_told(tmp_path, "impatient")


def test_only_backends_of_nodes_are_ended(ground: Ground, tmp_path: Path) -> None:
    nodes = [
        psycopg.connect(ground.dsn, autocommit=True, application_name=f"ninelives {number}") for number in range(3)
    ]
    with psycopg.connect(ground.dsn, autocommit=True) as other:
        begin("end-backends", ground)
        check_told(tmp_path, "end-backends")
        alive = 0
        for node in nodes:
            try:
                node.execute("select 1")
                alive += 1
            except psycopg.OperationalError:
                pass
            node.close()
        assert alive == 1  # every other one, and never fewer than half
        assert other.execute("select 1").fetchone() == (1,)


def test_without_a_backend_there_is_nothing_to_end(ground: Ground, tmp_path: Path) -> None:
    assert not NEMESES["end-backends"](ground, Disturbance("end-backends", 0.0), 0).begin()
    assert events(tmp_path) == []


def test_an_old_snapshot_keeps_the_horizon_where_it_is(ground: Ground, tmp_path: Path) -> None:
    nemesis = begin("hold-snapshot", ground)
    oldest = "select max(age(backend_xmin)) from pg_stat_activity where application_name = 'rig nemesis'"
    for number in range(3):
        ask(ground.dsn, f"create table moved_{number} (one int)")
    assert int(str(ask(ground.dsn, oldest))) >= 3
    nemesis.heal()
    check_told(tmp_path, "hold-snapshot")


def test_a_crowded_server_takes_nobody_in(ground: Ground, tmp_path: Path) -> None:
    nemesis = begin("take-connections", ground)
    with pytest.raises(psycopg.OperationalError, match=r"too many|connection slots"):
        ask(ground.dsn, "select 1")
    nemesis.heal()
    check_told(tmp_path, "take-connections")


def test_a_frozen_process_stands_still_until_it_is_let_go(ground: Ground, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as process:
        identity = ProcessIdentity.of(process.pid)
        cast(Any, ground.fleet).nodes.append(Stand(Order("worker-1"), identity))
        nemesis = begin("freeze", ground)
        assert identity.state() == "T"
        nemesis.heal()
        assert identity.state() in "SR"
        identity.kill(signal.SIGKILL)
    check_told(tmp_path, "freeze")


_STARVABLE = """
import signal, sys, threading, time
from pathlib import Path
from ninelives_rig.starvation import answer_requests
answer_requests(Path(sys.argv[1]))
beats = Path(sys.argv[1], "beats")
def beat():
    with beats.open("a", buffering=1) as file:
        while True:
            file.write(f"{time.monotonic_ns()}\\n")
            time.sleep(0.01)
threading.Thread(target=beat, daemon=True).start()
Path(sys.argv[1], "ready").touch()
while True:
    signal.pause()
"""


def beats(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "beats").read_text().split("\n")[:-1]]


@pytest.mark.parametrize("action", ["starve", "block"])
def test_only_who_holds_the_interpreter_stops_the_other_threads(action: str, ground: Ground, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", _STARVABLE, str(tmp_path)]) as process:
        wait_until("it can be asked", (tmp_path / "ready").exists)
        identity = ProcessIdentity.of(process.pid)
        cast(Any, ground.fleet).nodes.append(Stand(Order("worker-1", work_root=tmp_path), identity))
        nemesis = NEMESES[action](ground, Disturbance(action, 0.0, "worker", 1.0), 0)
        began = time.monotonic_ns()
        assert nemesis.begin()
        nemesis.heal()
        ended = time.monotonic_ns()
        wait_until("it beats again", lambda: beats(tmp_path)[-1] > ended)
        identity.kill(signal.SIGKILL)
    check_told(tmp_path, action)
    if action == "starve":
        assert max(later - earlier for earlier, later in pairwise(beats(tmp_path))) > 900_000_000
    else:
        assert sum(began < t < ended for t in beats(tmp_path)) >= 3


def test_a_node_under_a_fault_is_not_hit_by_another(ground: Ground) -> None:
    processes = [subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) for _ in range(2)]
    stands = [
        Stand(Order(f"worker-{number}"), ProcessIdentity.of(process.pid)) for number, process in enumerate(processes)
    ]
    cast(Any, ground.fleet).nodes.extend(stands)
    planned = [Disturbance("freeze", 0.1, "worker", 3600.0) for _ in range(3)]
    disturbances = Disturbances(planned, 10, ground)
    try:
        disturbances.tick(done=5, rows=0)
        assert [stand.identity.state() for stand in stands] == ["T", "T"]
        assert not disturbances.over  # the third waits for a node that nothing has hit
        disturbances.heal()
        assert disturbances.over
        assert all(stand.identity.state() in "SR" for stand in stands)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_what_falls_due_while_the_server_is_silent_waits(ground: Ground) -> None:
    planned = [Disturbance("freeze-server", 0.1, "worker", 3600.0), Disturbance("read-only", 0.2, "worker", 0.0)]
    disturbances = Disturbances(planned, 10, ground)
    disturbances.tick(done=5, rows=0)
    assert disturbances.server_silent and disturbances.changes == 1
    disturbances.tick(done=9, rows=0)
    assert disturbances.changes == 1
    disturbances.heal()
    assert not disturbances.server_silent
    assert ask(ground.dsn, "show default_transaction_read_only") == "off"
