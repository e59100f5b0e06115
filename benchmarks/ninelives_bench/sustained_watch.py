"""What the server's processes wait for and who has the processors, sampled while something is measured."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import psycopg

from ninelives_bench.ground import Ground

WAITS_EVERY_S: Final = 0.02
CPU_EVERY_S: Final = 0.25
SLOW_MS: Final = 20.0
"""A transaction of a node that is older is stalled; one batch takes a few milliseconds."""
NODE: Final = "backend of a node"
NO_PROCESSOR: Final = "ready, without a processor"
_LOOK: Final = b"""
select pid, backend_type, application_name, coalesce(wait_event_type || ' ' || wait_event, 'running'), query,
       coalesce(extract(epoch from clock_timestamp() - xact_start), 0)::float8 * 1000
  from pg_stat_activity
 where pid <> pg_backend_pid() and coalesce(wait_event_type, '') not in ('Activity', 'Client', 'Timeout')
   and (state = 'active' or backend_type <> 'client backend')
"""
_NANO: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Doing:
    """One process of the server at one moment, in seconds of the epoch."""

    at: float
    who: str
    what: str
    age_ms: float = 0.0
    """Of its transaction."""
    ready: float = 0.0
    """The share of the time since the look before in which it could have run and had no processor."""


@dataclass(slots=True)
class Used:
    """Processor time in seconds: used, and waited for while ready to run."""

    running: float = 0.0
    ready: float = 0.0


@dataclass(slots=True)
class Seen:
    """What a watch has seen."""

    moments: list[float] = field(default_factory=list)
    """When it looked."""
    doing: list[Doing] = field(default_factory=list)
    cpu: list[tuple[float, dict[str, Used], float]] = field(default_factory=list)
    """Until when, what each kind of process used since the look before, and what the whole machine did."""
    unwritten: list[tuple[float, float, float]] = field(default_factory=list)
    """When, and the megabytes that the kernel has not written yet and that it is writing, of all files."""


class ServerWatch:
    """Looks at a server from a thread of its own, on a connection of its own; use ``with``.

    Costs about a hundredth of a processor at the intervals above.
    """

    def __init__(self, ground: Ground, others: Callable[[], Iterable[tuple[str, int]]] = tuple) -> None:
        """``others`` names processes beside the server's whose processor time is told too."""
        self._ground = ground
        self._others = others
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="server-watch", daemon=True)
        self.seen = Seen()
        self.error: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if self.error is not None and error is None:
            raise RuntimeError(f"the watch over the server has ended early: {self.error}") from self.error

    def _run(self) -> None:
        try:
            with psycopg.connect(self._ground.server.dsn, autocommit=True, application_name="bench watch") as own:
                self._watch(own)
        except BaseException as error:
            self.error = error

    def _watch(self, own: psycopg.Connection) -> None:
        kinds: dict[int, str] = {}
        before: dict[int, tuple[float, float]] = {}
        busy, due_cpu, due = machine_s(), 0.0, time.monotonic()
        readiness = _Readiness()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            due = max(due + WAITS_EVERY_S, time.monotonic())
            at = time.time()
            self.seen.moments.append(at)
            for pid, backend, application, what, query, age_ms in own.execute(_LOOK, prepare=True):
                who = kinds[int(pid)] = kind_of(str(backend), str(application), str(query))
                share = readiness.share(int(pid), at) if who == NODE else 0.0
                self.seen.doing.append(Doing(at, who, str(what), float(age_ms), share))
            if due >= due_cpu:
                due_cpu = due + CPU_EVERY_S
                now_busy, now = machine_s(), self._processor(own.info.backend_pid, kinds)
                self.seen.cpu.append((at, used_by(kinds, before, now), now_busy - busy))
                before, busy = now, now_busy
                self.seen.unwritten.append((at, *unwritten_mb()))

    def _processor(self, own: int, kinds: dict[int, str]) -> dict[int, tuple[float, float]]:
        for name, pid in self._others():
            kinds[pid] = name
        kinds[own] = "bench watch"
        pids = {identity.pid for identity in self._ground.server.processes()} | {pid for _, pid in self._others()}
        found = {}
        for pid in pids:
            told = processor_s(pid)
            if told is not None:
                found[pid] = told
                kinds.setdefault(pid, "other of the server")
        return found


class _Readiness:
    """How much of the time since it was last asked for a process was ready and did not run."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[float, float]] = {}

    def share(self, pid: int, at: float) -> float:
        told = processor_s(pid)
        if told is None:
            return 0.0
        before_at, before = self._before.get(pid, (at, told[1]))
        self._before[pid] = at, told[1]
        # Longer ago, it says nothing about this moment.
        recent = 0.0 < at - before_at < 3 * WAITS_EVERY_S
        return min(1.0, (told[1] - before) / (at - before_at)) if recent else 0.0


def kind_of(backend: str, application: str, query: str) -> str:
    """Name a process of the server: a worker of autovacuum by its table, a backend by what it is for."""
    if backend == "autovacuum worker":
        return query.split(" (")[0].replace("autovacuum: ", "")[:60].lower() or backend
    if backend == "client backend":
        return NODE if application.startswith("ninelives") else "other backend"
    return backend


def used_by(
    kinds: dict[int, str], before: dict[int, tuple[float, float]], now: dict[int, tuple[float, float]]
) -> dict[str, Used]:
    """Return what each kind has used between two looks; a process that is new has not been seen before."""
    found: dict[str, Used] = {}
    for pid, (running, ready) in now.items():
        if pid in before:
            used = found.setdefault(kinds.get(pid, "?"), Used())
            used.running += running - before[pid][0]
            used.ready += ready - before[pid][1]
    return found


def processor_s(pid: int) -> tuple[float, float] | None:
    """Return how long a process, all its threads, has run and how long it was ready and did not; None: it is gone."""
    running = ready = 0.0
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            fields = (task / "schedstat").read_text().split()
            running += int(fields[0]) * _NANO
            ready += int(fields[1]) * _NANO
    except OSError:
        return None
    return running, ready


def machine_s() -> float:
    """Return the seconds that all processors were busy since the machine began, waiting for a disk not counted."""
    user, nice, system, _, _, irq, softirq, *_ = (
        int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + irq + softirq) / 100


def unwritten_mb() -> tuple[float, float]:
    """Return how much the kernel has still to write and how much it is writing."""
    told = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return float(told["Dirty"].split()[0]) / 1e3, float(told["Writeback"].split()[0]) / 1e3


def share_of_waits(seen: Seen, spans: Sequence[tuple[float, float]]) -> list[dict[str, Any]]:
    """Return how many processes of each kind were at each thing on the average over stretches of the epoch."""
    counted: Counter[tuple[str, str]] = Counter()
    looks = sum(1 for at in seen.moments if _within(at, spans))
    for one in seen.doing:
        if _within(one.at, spans):
            counted[one.who, one.what] += 1
    return [
        {"who": who, "what": what, "processes": count / looks} for (who, what), count in counted.most_common() if looks
    ]


def stalls(seen: Seen, begin: float, end: float) -> list[dict[str, Any]]:
    """Return at what the transactions of nodes were that had begun long before, in seconds of connections.

    A look stands for the time until the next one; what of it passed without a processor is told apart.
    """
    found: dict[str, list[float]] = {}
    for one in seen.doing:
        if one.who != NODE or one.age_ms < SLOW_MS or not begin <= one.at < end:
            continue
        for what, share in ((one.what, 1.0 - one.ready), (NO_PROCESSOR, one.ready)):
            if share:
                entry = found.setdefault(what, [0.0, 0.0, 0.0])
                entry[0] += share * WAITS_EVERY_S
                entry[1] += 1
                entry[2] = max(entry[2], one.age_ms)
    ordered = sorted(found.items(), key=lambda item: -item[1][0])
    return [
        {"what": what, "seconds": seconds, "looks": int(looks), "oldest_ms": oldest}
        for what, (seconds, looks, oldest) in ordered
    ]


def processor_shares(seen: Seen, begin: float, end: float) -> dict[str, Any]:
    """Return processors in use by kind, and by whatever is not of this measurement, between two moments."""
    looks = [one for one in seen.cpu if begin <= one[0] <= end]
    if len(looks) < 2:
        return {}
    seconds = looks[-1][0] - looks[0][0]
    total: dict[str, Used] = {}
    for _, used, _ in looks[1:]:
        for who, one in used.items():
            sum_ = total.setdefault(who, Used())
            sum_.running += one.running
            sum_.ready += one.ready
    ours = sum(one.running for one in total.values())
    busy = sum(one[2] for one in looks[1:])
    return {
        "processors": {who: {"running": one.running / seconds, "ready": one.ready / seconds}
                       for who, one in sorted(total.items())},
        "of_others": max(0.0, busy - ours) / seconds,
    }  # fmt: skip


def _within(at: float, spans: Sequence[tuple[float, float]]) -> bool:
    return any(begin <= at < end for begin, end in spans)
