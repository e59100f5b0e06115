"""What a run does before its first arm: what is refused is refused before anything of the user's is touched."""

from __future__ import annotations

import io
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from psycopg import sql
from tests.checkers.make_bundle import write_bundle
from tests.checkers.stories import idempotent
from tests.rig.conftest import RunningRig
from tests.rig.helpers import wait_for

from ninelives_rig import judging, stage
from ninelives_rig.cluster import dsn as dsn_module
from ninelives_rig.cluster.errors import ClusterError, ServerUnreachable
from ninelives_rig.engines.base import Store
from ninelives_rig.engines.naive import ENGINE as NAIVE
from ninelives_rig.evidence.writer import BundleWriter, OutRefused
from ninelives_rig.progress import Display
from ninelives_rig.run import Request, prepare
from ninelives_scenarios.qr2 import CAMPAIGN

NOWHERE = "host=127.0.0.1 port=1 dbname=x"


@pytest.fixture(autouse=True)
def temp(base: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(base))
    return base


def begun(request: Request) -> str:
    """Prepare a run and end it at once; returns what it said."""
    said = io.StringIO()
    with prepare(request, Display(plain=True, stream=said)):
        pass
    return said.getvalue()


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("old", [True, False], ids=["over-an-old-bundle", "nothing-there"])
def test_a_server_that_does_not_answer_costs_no_old_bundle_and_leaves_no_directory(tmp_path: Path, old: bool) -> None:
    out = tmp_path / "deep" / "out"
    if old:
        judging.assess(write_bundle(out, idempotent()))
    before = files(tmp_path)
    said = io.StringIO()
    request = Request(CAMPAIGN, "naive", 1, out, dsn=NOWHERE)
    with pytest.raises(ServerUnreachable), prepare(request, Display(plain=True, stream=said)):
        pass
    assert files(tmp_path) == before
    assert out.exists() == old and (tmp_path / "deep").exists() == old
    assert "evidence goes to" not in said.getvalue()


@pytest.mark.postgres
def test_a_server_that_answers_gets_the_old_bundle_replaced(tmp_path: Path, database_dsn: str) -> None:
    out = write_bundle(tmp_path / "out", idempotent())
    assert f"evidence goes to {out}" in begun(Request(CAMPAIGN, "naive", 1, out, dsn=database_dsn))
    assert [path.name for path in out.iterdir()] == ["manifest.json"]


@pytest.mark.postgres
def test_a_run_whose_manifest_cannot_be_written_leaves_no_empty_directory(
    tmp_path: Path, database_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(bundle: BundleWriter, _: object) -> None:
        (bundle.root / "manifest.json.draft").touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(BundleWriter, "manifest", full)
    for made in (False, True):
        out = tmp_path / f"out-{made}"
        if made:
            out.mkdir()
        with pytest.raises(OSError, match="No space"):
            begun(Request(CAMPAIGN, "naive", 1, out, dsn=database_dsn))
        assert out.exists() == made
        assert not made or list(out.iterdir()) == []


@pytest.mark.postgres
def test_a_directory_of_somebody_else_is_refused_and_stays(tmp_path: Path, database_dsn: str, temp: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(OutRefused, match="--out"):
        begun(Request(CAMPAIGN, "naive", 1, tmp_path, dsn=database_dsn))
    assert files(tmp_path) == {"thesis.txt": b"mine"}
    assert list(temp.glob("ninelives-*/r*")) == []


@pytest.mark.postgres
def test_keep_tells_the_schemas_that_it_keeps_on_a_given_server(tmp_path: Path, database_dsn: str, temp: Path) -> None:
    said = begun(Request(CAMPAIGN, "naive", 1, tmp_path / "out", dsn=database_dsn, keep=True))
    (drop,) = (line.partition(": ")[2] for line in said.splitlines() if line.strip().startswith("remove:"))
    names = re.findall('"(.+?)"', drop)
    with psycopg.connect(database_dsn, autocommit=True) as connection:
        for name in names:
            connection.execute(sql.SQL("create schema {}").format(sql.Identifier(name)))
        connection.execute(drop.encode())
        left = connection.execute("select count(*) from pg_namespace where nspname like '%kept%'").fetchone()
    assert len(names) == len(CAMPAIGN.arms) and left == (0,)
    assert "password" not in said
    assert list(temp.glob("ninelives-*/r*")) == []


def test_keep_with_docker_is_refused_because_nothing_can_be_kept(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="--keep"):
        begun(Request(CAMPAIGN, "naive", 1, tmp_path / "out", postgres="docker", keep=True))


@pytest.mark.postgres
@pytest.mark.chaos
def test_keep_tells_how_to_use_and_remove_the_server_that_it_keeps(tmp_path: Path, temp: Path) -> None:
    said = begun(Request(CAMPAIGN, "naive", 1, tmp_path / "out", keep=True))
    told = {key.strip(): value.strip() for key, _, value in (line.partition(": ") for line in said.splitlines())}
    (directory,) = temp.glob("ninelives-*/r*")
    assert told["kept"].startswith(str(directory))
    with subprocess.Popen(shlex.split(told["start"]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_for("the kept server", lambda: answers(told["connect"]))
        finally:
            server.terminate()
    (program, dsn) = shlex.split(told["connect"])
    assert (program, dsn.partition("host=")[0]) == ("psql", "")
    assert shlex.split(told["remove"]) == ["rm", "-r", str(directory)]
    shutil.rmtree(directory)


def answers(command: str) -> bool:
    """Whether the server of a printed psql command can be reached."""
    try:
        psycopg.connect(shlex.split(command)[1]).close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.mark.postgres
@pytest.mark.chaos
@pytest.mark.slow
def test_keep_is_told_at_the_end_of_a_whole_run(start_rig: Callable[..., RunningRig]) -> None:
    rig = start_rig("qr2", "--engine", "naive", "--flows", "2", "--kills", "0", "--keep", "--json")
    _, _, errors = rig.finish()
    (directory,) = rig.run_directories()
    *_, last = errors.splitlines()
    assert f"rm -r {directory}" in last
    shutil.rmtree(directory)


@pytest.mark.postgres
def test_a_locked_schema_of_a_dead_run_is_left_and_waited_for_only_shortly(
    tmp_path: Path, database_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dsn_module, "_LOCK_PATIENCE", "20ms", raising=False)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    name = f"ninelives_rig_{boot}_4194304_1_1"
    with psycopg.connect(database_dsn) as reader:
        reader.execute(f"create schema {name}; create table {name}.t (); commit; begin; lock table {name}.t")
        # Only so that a failure ends: nothing else would end a wait for this lock.
        signal.alarm(20)
        said = begun(Request(CAMPAIGN, "naive", 1, tmp_path / "out", dsn=database_dsn))
        stage._discard(
            SimpleNamespace(engine=NAIVE, display=Display(plain=True, stream=io.StringIO())),  # type: ignore[arg-type]  # as much of a rig as it needs
            Store(database_dsn, name),
        )
        signal.alarm(0)
        reader.rollback()
        assert reader.execute("select to_regnamespace(%s) is not null", [name]).fetchone() == (True,)
    assert "in use and stays" in said
    assert f"schema {name} of a run that was killed has been dropped" in begun(
        Request(CAMPAIGN, "naive", 1, tmp_path / "out", dsn=database_dsn)
    )
