"""Whatever ends a rig, its nodes and its server end too, frozen ones included."""

from __future__ import annotations

import signal
from collections.abc import Callable

import orjson
import psycopg
import pytest
from tests.rig.conftest import RunningRig
from tests.rig.helpers import wait_for

from ninelives_rig.identity import ProcessIdentity, wait_dead
from ninelives_rig.rundir import sweep

pytestmark = [pytest.mark.postgres, pytest.mark.chaos, pytest.mark.slow]

Start = Callable[..., RunningRig]
# Long enough that every signal comes in the middle, whatever the machine does besides.
LONG = ("qr2", "--engine", "naive", "--flows", "5000", "--kills", "20")


def everything(rig: RunningRig) -> list[ProcessIdentity]:
    """Every process that the rig has started."""
    return sorted({*rig.nodes(), *rig.registered()})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_everything_and_proves_nothing(start_rig: Start, number: int) -> None:
    rig = start_rig(*LONG)
    wait_for("a first kill", rig.receipts)
    started = everything(rig)
    assert len(started) >= 6
    rig.process.send_signal(number)
    code, output, errors = rig.finish()
    assert code == 2, errors
    assert output.startswith("INCONCLUSIVE") and "interrupted" in output
    assert wait_dead({*started, *rig.nodes()}, 5.0) == []
    assert rig.run_directories() == []
    assert orjson.loads((rig.out / "verdict.json").read_bytes())["verdict"] == "INCONCLUSIVE"
    assert orjson.loads((rig.out / "manifest.json").read_bytes())["aborted"] == "interrupted"


def test_an_interruption_before_any_node_exists_ends_the_server(start_rig: Start) -> None:
    rig = start_rig(*LONG)
    wait_for("a registered server", rig.registered)
    started = rig.registered()
    rig.process.send_signal(signal.SIGINT)
    assert rig.finish()[0] == 2
    assert wait_dead({*started, *rig.nodes()}, 5.0) == []
    assert rig.run_directories() == []


def test_kill_9_of_the_rig_leaves_no_process_and_the_next_run_removes_its_files(start_rig: Start) -> None:
    rig = start_rig(*LONG)
    wait_for("a first kill", rig.receipts)
    frozen = next(node for node in rig.nodes() if node.alive())
    frozen.kill(signal.SIGSTOP)
    started = everything(rig)
    rig.process.kill()
    rig.process.wait()
    assert wait_dead({*started, *rig.nodes()}, 10.0) == []
    left = rig.run_directories()
    assert len(left) == 1
    assert sweep(rig.base).removed == left
    assert rig.run_directories() == []


def schemas(dsn: str) -> set[str]:
    """Names of the rig's schemas on a server."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "select nspname from pg_namespace where nspname like 'ninelives\\_rig\\_%'"
        ).fetchall()
    return {str(name) for (name,) in rows}


def test_a_killed_run_on_a_given_server_ends_and_the_next_one_drops_its_schemas(
    start_rig: Start, database_dsn: str
) -> None:
    killed = start_rig(*LONG, "--dsn", database_dsn)
    wait_for("a first kill", killed.receipts)
    nodes = killed.nodes()
    killed.process.kill()
    killed.process.wait()
    assert wait_dead({*nodes, *killed.nodes()}, 10.0) == []
    with psycopg.connect(database_dsn) as connection:
        connection.execute("create schema ninelives_rig_of_somebody_else")
    assert len(schemas(database_dsn)) == 2
    following = start_rig("qr2", "--engine", "naive", "--flows", "20", "--kills", "1", "--dsn", database_dsn)
    code, _, errors = following.finish()
    assert code in (0, 1, 2) and "of a run that was killed has been dropped" in errors, errors
    assert schemas(database_dsn) == {"ninelives_rig_of_somebody_else"}


def test_a_frozen_node_is_ended_when_the_run_stops(start_rig: Start) -> None:
    rig = start_rig(*LONG)
    wait_for("a first kill", rig.receipts)
    for node in rig.nodes():
        node.kill(signal.SIGSTOP)
    rig.process.send_signal(signal.SIGINT)
    assert rig.finish()[0] == 2
    assert wait_dead(rig.nodes(), 5.0) == []


def test_ctrl_c_again_and_again_ends_the_run_like_the_first_one(start_rig: Start) -> None:
    rig = start_rig(*LONG)
    wait_for("a first kill", rig.receipts)
    started = everything(rig)

    def ended_by_another() -> bool:
        rig.process.send_signal(signal.SIGINT)
        return rig.process.poll() is not None

    wait_for("the end", ended_by_another)
    code, output, errors = rig.finish()
    assert code == 2, errors
    assert output.startswith("INCONCLUSIVE") and "interrupted" in output
    assert "Traceback" not in errors and "already ending" in errors
    assert wait_dead({*started, *rig.nodes()}, 5.0) == []
    assert rig.run_directories() == []
