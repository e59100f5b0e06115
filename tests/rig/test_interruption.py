"""Ctrl-C at every stage of a command: exit code, verdict and message say the same, and nothing is left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from tests.checkers.make_bundle import write_bundle
from tests.checkers.stories import idempotent

from ninelives_rig import judging
from ninelives_rig import run as run_module
from ninelives_rig.evidence.seal import seal
from ninelives_rig.interruption import interruptible
from ninelives_rig.progress import Display
from ninelives_rig.run import Request, run
from ninelives_rig.verdict import Status
from ninelives_scenarios.qr2 import CAMPAIGN


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A complete bundle that passes; ``run`` finds it made already and has only the rest to do."""
    root = write_bundle(tmp_path / "bundle", idempotent())
    manifest = orjson.loads((root / "manifest.json").read_bytes())

    @contextmanager
    def prepared(request: Request, display: Display) -> Iterator[Any]:
        yield SimpleNamespace(arms=(), bundle=SimpleNamespace(root=root), manifest=manifest, display=display)

    monkeypatch.setattr(run_module, "prepare", prepared)
    return root


def finish(root: Path) -> judging.Outcome:
    return run(Request(CAMPAIGN, "reference", 1, root), Display(quiet=True))


def interrupting(times: int, work: Callable[..., Any], after: bool = False) -> Callable[..., Any]:
    """Return ``work`` with so many Ctrl-C before it or just after it."""

    def interrupted(*arguments: Any) -> Any:
        done = work(*arguments) if after else None
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        return done if after else work(*arguments)

    return interrupted


def written(root: Path) -> dict[str, Any]:
    content: dict[str, Any] = orjson.loads((root / "verdict.json").read_bytes())
    return content


def test_one_interruption_while_judging_lets_it_finish_and_says_so(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(judging, "assess", interrupting(1, judging.assess))
    assert finish(bundle).status is Status.PASS
    assert written(bundle)["verdict"] == "PASS"
    assert "judged to the end" in capfd.readouterr().err


@pytest.mark.parametrize("after", [False, True], ids=["before-the-verdict", "after-the-verdict"])
def test_a_second_one_stops_the_judging_and_no_pass_is_left(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(judging, "assess", interrupting(2, judging.assess, after))
        outcome = finish(bundle)
    assert outcome.status is Status.INCONCLUSIVE
    assert written(bundle)["verdict"] == "INCONCLUSIVE"
    assert f"ninelives-rig check {bundle}" in outcome.lines[0]
    assert judging.assess(bundle).status is Status.PASS


@pytest.mark.parametrize("times", [1, 2, 5])
def test_an_interruption_while_reporting_changes_no_verdict(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    monkeypatch.setattr(judging, "report", interrupting(times, judging.report))
    assert finish(bundle).status is Status.PASS
    assert written(bundle)["verdict"] == "PASS"


def test_no_interruption_stops_the_sealing(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "seal", interrupting(3, seal))
    assert finish(bundle).status is Status.PASS
    assert (bundle / "digests.json").exists()


def test_interruptions_after_the_first_find_the_cleaning_up_undisturbed() -> None:
    cleaned = []
    with pytest.raises(KeyboardInterrupt), interruptible():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(os.getpid(), number)
                cleaned.append(number)
    assert len(cleaned) == 3


def test_handlers_are_put_back_and_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible(), interruptible():
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            assert signal.getsignal(signal.SIGINT) != signal.default_int_handler
        assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
    finally:
        signal.signal(signal.SIGHUP, before)
