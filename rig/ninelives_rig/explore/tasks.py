"""Explores cases in processes of their own, several at a time, each in a database or schema of its own."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from ninelives_rig.explore.mutants import RaceMutant, mutant
from ninelives_rig.explore.schedule import Outcome, StateBroken, explore
from ninelives_rig.explore.states import Case
from ninelives_rig.explore.world import open_world
from ninelives_rig.sabotage.planting import Plot

_CASES_PER_TASK = 10
SCHEDULES_MAX = 5_000
"""Of one case: two operations have fewer in all states but one, some triples have many more."""
_FAILED_KEPT = 3
"""Failing schedules that are told of a case; what is behind the first ones is counted."""


@dataclass(frozen=True)
class Place:
    """Where a task's rows are: ``schema`` in the database of ``dsn``, or in one made for it if ``own_database``."""

    dsn: str
    schema: str
    own_database: bool

    def numbered(self, number: int) -> Place:
        """Return the place of a task with this number."""
        return Place(self.dsn, f"{self.schema}_{number}", self.own_database)


@dataclass(frozen=True)
class Task:
    """Cases that one process explores one behind the other; with a mutant only until a schedule shows it."""

    place: Place
    cases: tuple[Case, ...]
    mutant: str = ""
    schedules_max: int = SCHEDULES_MAX


@dataclass
class CaseTold:
    """What the schedules of one case came to. ``failed`` are the first ones that violate an invariant."""

    case: Case
    schedules: int = 0
    moves: int = 0
    waits: int = 0
    violating: int = 0
    unreached: int = 0
    cut_off: bool = False
    """There are more schedules than were run."""
    failed: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Count one schedule."""
        if outcome.unreached:
            self.unreached += 1
            return
        self.schedules += 1
        self.moves += len(outcome.moves)
        self.waits += outcome.waits
        if outcome.violations:
            self.violating += 1
            if len(self.failed) < _FAILED_KEPT:
                self.failed.append(outcome)


def split(cases: Sequence[Case], place: Place, schedules_max: int = SCHEDULES_MAX) -> list[Task]:
    """Return tasks for all cases; those of one state stay together, because the state is made only once then."""
    tasks: list[Task] = []
    for _, alike in groupby(sorted(cases, key=lambda case: case.state), key=lambda case: case.state):
        of_state = list(alike)
        for first in range(0, len(of_state), _CASES_PER_TASK):
            some = tuple(of_state[first : first + _CASES_PER_TASK])
            tasks.append(Task(place.numbered(len(tasks)), some, schedules_max=schedules_max))
    # The triples take longest: they begin first.
    return sorted(tasks, key=lambda task: -max(len(case.operations) for case in task.cases))


def run_tasks(tasks: Sequence[Task], at_once: int) -> Iterator[tuple[Task, list[CaseTold]]]:
    """Explore, ``at_once`` tasks at a time, and yield what each told when it is known; ends all when it is closed."""
    context = multiprocessing.get_context("spawn")
    # A process for each task, because what is planted in one stays planted.
    with ProcessPoolExecutor(at_once, mp_context=context, initializer=_tie, max_tasks_per_child=1) as pool:
        running = {pool.submit(run_task, task): task for task in tasks}
        try:
            for future in as_completed(running):
                yield running[future], future.result()
        except BaseException:
            for future in running:
                future.cancel()
            for process in multiprocessing.active_children():
                process.kill()
            raise


def _tie() -> None:
    """Let a worker end with the process that started it, which alone answers an interruption."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from ninelives_rig import lifeline  # noqa: F401 - Ties this process when it is imported.


def run_task(task: Task) -> list[CaseTold]:
    """Explore the cases of one task, in this process; what is planted here ends with it."""
    plot = Plot()
    if task.mutant:
        for edit in mutant(task.mutant).planted():
            plot.add(edit)
        plot.put_functions_in_place()
    with opened(task.place) as dsn, open_world(dsn, task.place.schema, plot) as world:
        told = []
        for case in task.cases:
            told.append(CaseTold(case))
            try:
                for outcome in explore(world, case):
                    told[-1].add(outcome)
                    if task.mutant and shows(mutant(task.mutant), outcome):
                        return told
                    if told[-1].schedules >= task.schedules_max:
                        told[-1].cut_off = True
                        break
            except StateBroken as error:
                told[-1].add(Outcome(case, violations=[str(error)]))
        return told


def shows(planted: RaceMutant, outcome: Outcome) -> bool:
    """Tell whether a schedule violates what the mutant must be found by."""
    return any(violation.startswith(f"{planted.invariant}:") for violation in outcome.violations)


@contextmanager
def opened(place: Place) -> Iterator[str]:
    """Make the task's database, if it has one of its own, and drop it at the end; yields its DSN."""
    if not place.own_database:
        yield place.dsn
        return
    name = sql.Identifier(place.schema)
    with psycopg.connect(place.dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {} template template0").format(name))
        try:
            yield make_conninfo(place.dsn, dbname=place.schema)
        finally:
            connection.execute(sql.SQL("drop database {} with (force)").format(name))
