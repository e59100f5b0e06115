"""What a user gets wrong at the command line is told in one line, with exit code 3, and begins nothing."""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest
import typer
from tests.checkers.make_bundle import write_bundle
from tests.checkers.stories import idempotent
from typer.testing import CliRunner

import ninelives_reports
from ninelives_rig import commands, judging
from ninelives_rig import run as run_module
from ninelives_rig.commands import app
from ninelives_rig.refusal import Refused
from ninelives_rig.run import Request
from ninelives_scenarios.qr2 import CAMPAIGN


def called(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("dance",), "No such command 'dance'"),
        (("run",), "Missing argument"),
        (("run", "qr2", "--flow", "3"), "No such option"),
        (("run", "qr2", "surplus"), "surplus"),
        (("check",), "Missing argument"),
        (("list", "--nonsense"), "No such option"),
        (("sabotage", "--nonsense"), "No such option"),
        (("sabotage", "--at-once", "0"), "greater than or equal to 1"),
        (("run", "nothing"), "no campaign 'nothing'; choose one of"),
        (("run", "qr2", "--engine", "temporal"), "no engine 'temporal'; choose one of naive, reference"),
        *[(("run", "qr2", "--seed", value), "--seed") for value in ("-1", str(2**63), "9" * 40, "nan", "1.5", "")],
        *[(("run", "qr2", "--flows", value), "--flows") for value in ("0", "-1", "16777217", "9" * 40, "nan", "1e3")],
        *[(("run", "qr2", "--kills", value), "--kills") for value in ("-1", "9" * 40, "inf")],
        (("run", "qr2", "--flows", "5", "--kills", "6"), "more flows or fewer kills"),
        (("run", "qr2", "--schema", "n" * 64), "--schema"),
        (("run", "qr2", "--schema", ""), "--schema"),
        (("run", "qr2", "--postgres", "docker", "--keep"), "--keep"),
    ],
)
def test_wrong_usage_has_one_exit_code_and_no_traceback(
    arguments: tuple[str, ...], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, output, errors = called(*arguments)
    assert (code, output) == (3, ""), errors
    assert complaint in errors and "Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("ninelives-")] == []


def test_no_command_at_all_is_wrong_usage_and_shows_the_help() -> None:
    code, output, _ = called()
    assert code == 3 and "Usage" in output


def test_help_is_no_failure_and_tells_the_exit_codes() -> None:
    code, output, _ = called("--help")
    assert code == 0
    assert re.search(r"2\s+INCONCLUSIVE or\s+interrupted,\s+3\s+wrong\s+usage", output)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_request_with_a_seed_that_no_manifest_can_hold_is_refused(seed: int, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="seed"):
        Request(CAMPAIGN, "reference", seed, tmp_path)


@pytest.mark.parametrize(
    ("error", "complaint"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "bundle/x"), "no space left"),
        (OSError("bundle/x: 3 of 40 bytes written; is the disk full?"), "disk full"),
        (psycopg.errors.DiskFull("could not extend file"), "no space left"),
        (psycopg.OperationalError("server closed the connection unexpectedly"), "stopped answering"),
        (psycopg.errors.InsufficientPrivilege("permission denied for database x"), "permission denied"),
    ],
)
def test_what_the_machine_or_the_server_denies_is_told_without_a_traceback(
    error: Exception, complaint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*_: object) -> Any:
        raise error

    monkeypatch.setattr(run_module, "run", broken)
    code, output, errors = called("run", "qr2", "--out", str(tmp_path / "out"))
    assert (code, output) == (3, "")
    assert complaint in errors and "Traceback" not in errors


def test_an_error_that_nobody_foresaw_shows_where_it_was_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        raise KeyError("surprise")

    monkeypatch.setattr(commands, "campaigns", broken)
    for arguments in (("list",), ("run", "qr2")):
        code, _, errors = called(*arguments)
        assert code == 3 and "Traceback" in errors and "surprise" in errors


@pytest.mark.parametrize("arguments", [("run", "qr2"), ("check", "b"), ("list",), ("report", "b")])
def test_an_interrupted_command_ends_with_code_2(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    for module, name in ((commands, "campaigns"), (commands, "assess"), (ninelives_reports, "render")):
        monkeypatch.setattr(module, name, interrupted)
    code, output, errors = called(*arguments)
    assert (code, output) == (2, "")
    assert "interrupted" in errors and "Traceback" not in errors
    assert ("ninelives-rig check b" in errors) == (arguments[0] == "check")


def test_a_closed_pipe_changes_no_exit_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = write_bundle(tmp_path / "bundle", idempotent())
    assert judging.assess(root).status.exit_code == 0

    def closed(*_: object, **__: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(typer, "echo", closed)
    assert CliRunner().invoke(app, ["check", str(root)]).exit_code == 0
