"""Runs scenarios with and without mutants, two at a time, each in a process of its own, against one server."""

from __future__ import annotations

import ctypes
import multiprocessing
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.context import SpawnProcess
from pathlib import Path

from ninelives_rig.campaign import Campaign
from ninelives_rig.progress import Display
from ninelives_rig.run import Request, run
from ninelives_rig.sabotage.mutants import Mutant
from ninelives_rig.sabotage.planting import EditRefused, plant
from ninelives_rig.sabotage.scenarios import Scenario, scenario
from ninelives_rig.verdict import Finding, Status

_PR_SET_PDEATHSIG = 1
_LIMIT_S = 150.0
_EXIT_RAN, _EXIT_BROKEN, _EXIT_STALE = 0, 70, 71


@dataclass(frozen=True)
class Job:
    """One run to do: a scenario, with a mutant or without one (the control)."""

    scenario: Scenario
    mutant: Mutant | None
    bundle: Path

    @property
    def name(self) -> str:
        """The mutant's name, or the control's."""
        return self.mutant.name if self.mutant else f"control of {self.scenario.name}"


@dataclass(frozen=True)
class Outcome:
    """What a run came to: ``good`` is a mutant caught by its checker, or a control that passed."""

    job: Job
    good: bool
    evidence: str
    seconds: float


def plan_jobs(mutants: Iterable[Mutant], out: Path) -> tuple[list[Job], list[Job]]:
    """Return the controls, one for each scenario that is needed, and the mutants' runs."""
    wanted = list(mutants)
    names = list(dict.fromkeys(one.scenario for one in wanted))
    controls = [Job(scenario(name), None, out / f"control.{name}") for name in names]
    return controls, [Job(scenario(one.scenario), one, out / one.name) for one in wanted]


def run_jobs(jobs: Iterable[Job], dsn: str, seed: int, at_once: int) -> Iterator[Outcome]:
    """Run jobs, ``at_once`` at a time, and yield each outcome when it is known; ends what runs when it is closed."""
    waiting = [job for job in jobs if not (job.mutant and job.mutant.spoil)]
    running: dict[SpawnProcess, tuple[Job, float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                job = waiting.pop(0)
                running[_start(job, dsn, seed)] = (job, time.monotonic())
            connection.wait([process.sentinel for process in running], timeout=1.0)
            for process, (job, began) in list(running.items()):
                seconds = time.monotonic() - began
                if process.is_alive() and seconds > _LIMIT_S:
                    # Its cleanup ends what it started, and heeds no further SIGTERM; one that hangs there is killed.
                    process.terminate()
                    process.join(20.0)
                    process.kill()
                    process.join()
                if not process.is_alive():
                    process.join()
                    del running[process]
                    yield _outcome(job, process.exitcode, seconds)
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.join(20.0)
            process.kill()


def spoil(job: Job, control: Path) -> Outcome:
    """Judge a copy of the control's evidence that the mutant has spoilt."""
    assert job.mutant and job.mutant.spoil
    began = time.monotonic()
    shutil.copytree(control, job.bundle)
    job.mutant.spoil(job.bundle)
    return _outcome(job, _EXIT_RAN, time.monotonic() - began)


def _start(job: Job, dsn: str, seed: int) -> SpawnProcess:
    process = multiprocessing.get_context("spawn").Process(target=_work, args=(job, dsn, seed), name=job.name)
    process.start()
    return process


def _work(job: Job, dsn: str, seed: int) -> None:
    """Be the coordinator of one run. What is planted here ends with this process."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    job.bundle.mkdir(parents=True)
    log = job.bundle.with_name(f"{job.bundle.name}.log").open("w")
    sys.stdout = sys.stderr = log
    mutant = job.mutant
    plants = [*job.scenario.slowness, *([mutant.name] if mutant and mutant.planted else [])]
    request = Request(
        campaign=Campaign("sabotage", job.name, (job.scenario.arm,)),
        engine="reference",
        seed=seed,
        out=job.bundle,
        dsn=dsn,
        allow_weak=True,
        schema="sabotage",
        delivery=mutant.delivery if mutant else "sigkill",
        node_extra={"plants": ",".join(plants)},
        judged=False,
    )
    code = _EXIT_RAN
    try:
        plant(plants)
        run(request, Display(plain=True, stream=log))
    except EditRefused as error:
        print(error, file=log)
        code = _EXIT_STALE
    except Exception:
        traceback.print_exc(file=log)
        code = _EXIT_BROKEN
    log.flush()
    sys.exit(code)


def _outcome(job: Job, exitcode: int | None, seconds: float) -> Outcome:
    # Here, because it brings pandas along, which the runs have no need of.
    from ninelives_rig.judge import judge

    def says(good: bool, evidence: str) -> Outcome:
        return Outcome(job, good, evidence, seconds)

    log = job.bundle.with_name(f"{job.bundle.name}.log")
    if exitcode == _EXIT_STALE:
        return says(False, f"not planted: {_last_line(log)}")
    if exitcode != _EXIT_RAN:
        return says(False, f"the run broke, which catches nothing (exit code {exitcode}): {_last_line(log)}")
    verdict = judge(job.bundle)
    wrong = [finding for finding in verdict.all_findings if finding.status is not Status.PASS]
    if job.mutant is None:
        status = verdict.status
        return says(not wrong and status is Status.PASS, _sentence(wrong) if wrong else status.value)
    wanted = [one for one in wrong if (one.checker, one.status) == (job.mutant.checker, job.mutant.status)]
    if wanted:
        return says(True, _sentence(wanted))
    return says(False, f"survived; others said: {_sentence(wrong)}" if wrong else "survived: every checker passed")


def _sentence(findings: list[Finding]) -> str:
    return f"{findings[0].name}: {findings[0].sentence}"


def _last_line(path: Path) -> str:
    with suppress(OSError, IndexError):
        return path.read_text(errors="replace").strip().splitlines()[-1]
    return "it left no log"


