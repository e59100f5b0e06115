"""One arm on its way through a run: everything it uses, and the verbs that ``run`` strings together."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random

import psycopg

from ninelives_rig.campaign import Arm, Campaign
from ninelives_rig.cluster.dsn import impatient
from ninelives_rig.cluster.errors import ClusterError
from ninelives_rig.cluster.ladder import OpenServer
from ninelives_rig.disturb import Disturbances
from ninelives_rig.engines.base import Engine, NodeOrder, NodeSettings, Store
from ninelives_rig.evidence.writer import ArmFolder, BundleWriter
from ninelives_rig.leftovers import Leftovers, count_deadlocks, look_for_leftovers
from ninelives_rig.nemesis import Ground
from ninelives_rig.nemesis.lines import Lines
from ninelives_rig.nodes import Fleet, NodesBroken
from ninelives_rig.operations import OperatorThread, Sightings
from ninelives_rig.progress import Display
from ninelives_rig.recorder import Recorder
from ninelives_rig.rundir import RunDirectory, interrupts_held_back
from ninelives_rig.schedule import COORDINATOR, WORKER, Instance, Kill, draw_instances, draw_kills
from ninelives_rig.sink import Sink
from ninelives_rig.starts import StartList, keep_in_flight
from ninelives_rig.watch import Movement, Probe

_STARTS_AT_ONCE = 64
_START_LOOK_S = 1.0
_START_PATIENCE_S = 60.0
_REAP_S = 0.02


@dataclass
class Rig:
    """What all arms of a run share."""

    campaign: Campaign
    arms: tuple[Arm, ...]
    engine: Engine
    seed: int
    server: OpenServer
    schema: str
    run_directory: RunDirectory
    bundle: BundleWriter
    display: Display
    manifest: dict[str, object]
    keep: bool = False
    delivery: str = "sigkill"
    node_extra: dict[str, str] = field(default_factory=dict)


@dataclass
class Stage:
    """One arm being run."""

    rig: Rig
    arm: Arm
    folder: ArmFolder
    work: Path
    store: Store
    recorder: Recorder
    instances: list[Instance]
    kills: list[Kill]
    fleet: Fleet
    disturbances: Disturbances
    operations: OperatorThread | None
    probe: Probe
    movement: Movement
    started_t: int
    deadlocks_before: int = 0
    leftovers: Leftovers = field(default_factory=Leftovers)
    converged: bool = False
    progressing: bool = True

    @property
    def fired(self) -> int:
        """How many kills have left a receipt."""
        return sum(1 for _ in self.folder.receipts.iterdir())

    @property
    def done(self) -> bool:
        """Whether every registered instance is terminal, as the server shows."""
        return self.probe.latest.terminal >= self.arm.flows

    def enter_phase(self, phase: str) -> None:
        """Write down and show that a phase has begun."""
        self.recorder.event("phase", phase=phase)
        self.rig.display.enter_phase(phase)

    def describe(self, ended_t: int = 0) -> None:
        """Write what the arm is and, at its end, how it came out."""
        arm, has = self.arm, self.rig.engine.capabilities
        self.folder.describe(
            {
                "name": arm.name,
                "effect": arm.effect,
                "position": arm.position,
                "steps": [
                    {"step_id": number, "name": step.name, "service_s": step.service_s, "kind": step.kind}
                    for number, step in enumerate(arm.workload.steps, start=1)
                ],
                "flows": arm.flows,
                "kills_planned": len(self.kills),
                "workers": arm.workers,
                "recovery_nodes": arm.recovery_nodes,
                "in_flight": arm.in_flight,
                "flows_max": arm.flows_max,
                "recovery_flows_max": arm.recovery_flows_max,
                "takeovers_max": arm.takeovers_max,
                "ttl_s": arm.ttl_s,
                "capabilities": {"journal": has.journal, "tokens": has.tokens, "intents": has.intents},
                "features": sorted(has.features),
                "disturbances": Counter(one.action for one in arm.disturbances),
                "lost_answers": [f"{one.statement} {one.when}" for one in arm.lost_answers],
                "pauses": arm.operations is not None and arm.operations.pause_share > 0,
                "boundaries": sorted(has.boundaries),
                "expect": arm.expect,
                "converged": self.converged,
                "converge_timeout_s": arm.converge_timeout_s,
                "progressing": self.progressing,
                "restarts": self.fleet.restarts,
                "deadlocks": self.leftovers.deadlocks,
                "idle_in_transaction": self.leftovers.idle_in_transaction,
                "started_t": self.started_t,
                "ended_t": ended_t,
            }
        )


@contextmanager
def register(rig: Rig, arm: Arm) -> Iterator[Stage]:
    """Name every instance and kill and write them down, make the arm's schema; end all its processes at the end."""
    rig.display.enter_arm(arm.name, arm.flows)
    folder = rig.bundle.arm(arm.name)
    work = rig.run_directory.path / "work" / arm.name
    work.mkdir(parents=True)
    instances = draw_instances(arm, rig.seed)
    kills = draw_kills(arm, rig.engine.capabilities, rig.seed, instances)
    folder.instances((one.index, one.instance_id, one.started_by) for one in instances)
    folder.schedule([kill.as_json() for kill in kills])
    store = Store(rig.server.dsn, arm_schema(rig.schema, rig.arms, arm))
    recorder = Recorder(folder.history, "coordinator")
    lines = _lines(rig, arm)
    fleet = Fleet(_orders(rig, arm, instances, store, lines, folder, work), kills, rig.run_directory, recorder)
    ground = Ground(
        fleet=fleet,
        bury=partial(rig.engine.bury, store),
        recorder=recorder,
        chance=Random(f"{rig.seed}/{arm.name}/nemesis"),
        dsn=store.dsn,
        server=rig.server.server,
        lines=lines,
    )
    stage = Stage(
        rig=rig,
        arm=arm,
        folder=folder,
        work=work,
        store=store,
        recorder=recorder,
        instances=instances,
        kills=kills,
        fleet=fleet,
        disturbances=Disturbances(arm.disturbances, arm.flows, ground),
        operations=_operations(arm, rig.seed, instances, folder, recorder),
        probe=Probe(store.dsn, rig.engine.progress_query(store)),
        movement=Movement(arm.ttl_s),
        started_t=time.monotonic_ns(),
    )
    stage.describe()
    rig.engine.prepare(store)
    with psycopg.connect(store.dsn, autocommit=True) as connection:
        stage.deadlocks_before = count_deadlocks(connection)
    try:
        yield stage
    finally:
        with interrupts_held_back():
            fleet.kill()
            _undo_faults(stage)
            if stage.operations is not None:
                stage.operations.close()
            stage.probe.close()
            recorder.close()
            if lines is not None:
                lines.close()
            if not rig.keep:
                _discard(rig, store)


def _undo_faults(stage: Stage) -> None:
    """Heal what an arm that was cut short left behind, so that what follows finds a server that answers."""
    try:
        stage.disturbances.heal()
    except (ClusterError, psycopg.Error, TimeoutError) as error:
        stage.rig.display.say(f"a fault of the arm {stage.arm.name} could not be undone: {error}")


def _lines(rig: Rig, arm: Arm) -> Lines | None:
    """Open a line for each slot of an arm whose plan is to cut some."""
    if not arm.lines:
        return None
    # Short, because a socket's path may be.
    lines = Lines(rig.server.dsn, rig.run_directory.path / f"l{rig.arms.index(arm)}")
    lines.open([f"{role}-{number}" for role, number in _roles(arm)])
    return lines


def _roles(arm: Arm) -> list[tuple[str, int]]:
    """Return every place that the arm has for a node, by role and number."""
    workers = [(WORKER, number) for number in range(1, arm.workers + 1)]
    return workers + [("recovery", number) for number in range(1, arm.recovery_nodes + 1)]


def arm_schema(prefix: str, arms: tuple[Arm, ...], arm: Arm) -> str:
    """Return the name of an arm's schema."""
    return f"{prefix}_{arms.index(arm) + 1}"


def _discard(rig: Rig, store: Store) -> None:
    """Remove the arm's schema. Interruptions are held back here, so it must not wait for somebody else for ever."""
    try:
        rig.engine.discard(replace(store, dsn=impatient(store.dsn)))
    except psycopg.errors.LockNotAvailable:
        rig.display.say(f"schema {store.schema} is in use by somebody else and stays; the next run drops it")


def start_nodes(stage: Stage) -> None:
    """Start the coordinator's share durably while no node exists, then all nodes, which start the rest."""
    stage.enter_phase("start")
    if stage.operations is not None:
        stage.operations.start(stage.rig.engine.operator(stage.store))
    owed = [one.index for one in stage.instances if one.started_by == COORDINATOR]
    if owed:
        asyncio.run(_start_all(stage, owed))
    stage.fleet.start()


def disturb(stage: Stage) -> None:
    """Let the kills and the other disturbances happen, until all have happened or no flow is left to hit."""
    stage.enter_phase("disturb")
    planned = len(stage.kills)
    _watch(stage, lambda: stage.disturbances.over and (stage.done or stage.fired >= planned))


def heal(stage: Stage) -> None:
    """End every disturbance that lasts. What was killed has been replaced already."""
    stage.enter_phase("heal")
    stage.disturbances.heal()


def drain(stage: Stage) -> None:
    """Wait until every instance is terminal, nothing moves for three TTLs, or time is up; then stop the nodes."""
    stage.enter_phase("drain")
    _watch(stage, lambda: stage.done)
    stage.converged = stage.done
    stage.progressing = not stage.movement.stands_still
    if stage.operations is not None:
        stage.operations.close()
    stage.enter_phase("stop")
    stage.fleet.stop(stage.arm.drain_s + 5.0)


def collect(stage: Stage) -> None:
    """Copy what the server and the sink hold into the bundle, through a connection that no node has used."""
    stage.enter_phase("collect")
    with psycopg.connect(stage.store.dsn, autocommit=True) as connection:
        stage.folder.tables(connection, stage.rig.engine.tables(stage.store))
        stage.leftovers = look_for_leftovers(connection, stage.deadlocks_before)
    stage.folder.sink(Sink(stage.work / "sink").records())
    server = stage.rig.server.server
    if server is not None:
        shutil.copyfile(server.log, stage.folder.logs / "postgres.log")
    stage.describe(ended_t=time.monotonic_ns())
    shutil.rmtree(stage.work)


def _orders(
    rig: Rig, arm: Arm, instances: list[Instance], store: Store, lines: Lines | None, folder: ArmFolder, work: Path
) -> Iterator[NodeOrder]:
    """Make the orders of the arm's nodes; the workers' starts are dealt out to them in turn."""
    theirs = [one.index for one in instances if one.started_by == WORKER]
    for role, number in _roles(arm):
        slot = f"{role}-{number}"
        flows_max = arm.flows_max
        if role == "recovery" and arm.recovery_flows_max is not None:
            flows_max = arm.recovery_flows_max
        yield NodeOrder(
            process=slot,
            slot=slot,
            role=role,
            engine=rig.engine.name,
            store=store if lines is None else replace(store, dsn=lines.dsn(slot)),
            workload=arm.workload,
            settings=NodeSettings(arm.ttl_s, flows_max, arm.takeovers_max, arm.drain_s),
            arm_root=folder.root,
            work_root=work,
            start_indexes=theirs[number - 1 :: arm.workers] if role == WORKER else [],
            seed=rig.seed,
            in_flight=arm.in_flight,
            delivery=rig.delivery,
            version=(arm.recovery_version or arm.version) if role == "recovery" else arm.version,
            lost_answers=arm.lost_answers,
            extra=rig.node_extra,
        )


def _operations(
    arm: Arm, seed: int, instances: list[Instance], folder: ArmFolder, recorder: Recorder
) -> OperatorThread | None:
    if arm.operations is None:
        return None
    ids = [one.instance_id for one in instances]
    sightings = Sightings(folder.root / "witness")
    return OperatorThread(arm.operations, arm.workload.waits, ids, f"{seed}/{arm.name}/operations", sightings, recorder)


async def _start_all(stage: Stage, owed: list[int]) -> None:
    """Start what the coordinator owes. Raises ``NodesBroken`` when no start is acknowledged for a long time."""
    starts = StartList(stage.work / "coordinator.marks", owed, lambda index: stage.instances[index].instance_id)
    engine = stage.rig.engine

    async def begin() -> None:
        async with engine.client(stage.store, stage.arm.workload, stage.arm.version) as starter:
            await keep_in_flight(
                starter,
                starts,
                _STARTS_AT_ONCE,
                stage.recorder,
                asyncio.Event(),
                engine.is_refusal,
                wait_for_end=False,
            )

    beginning = asyncio.create_task(begin())
    movement = Movement(max(stage.arm.ttl_s, _START_PATIENCE_S / 3))
    # A start that fails is repeated until it is acknowledged, so only this ends it when none ever will be.
    while not beginning.done():
        await asyncio.wait({beginning}, timeout=_START_LOOK_S)
        movement.note((starts.acknowledged,))
        stage.rig.display.update(0, f"{starts.acknowledged}/{len(owed)} flows of the coordinator started")
        if movement.stands_still and not beginning.done():
            beginning.cancel()
            await asyncio.wait({beginning}, timeout=_START_LOOK_S)
            problem = starts.problem or "the server has answered nothing"
            raise NodesBroken(f"{starts.acknowledged} of {len(owed)} flows could be started, then none: {problem}")
    await beginning
    starts.close()


def _watch(stage: Stage, reached: Callable[[], bool]) -> None:
    """Keep the nodes alive and the display true, until the aim is reached or the arm can get no further."""
    limit_ns = stage.started_t + int(stage.arm.converge_timeout_s * 1e9)
    while True:
        stage.fleet.reap(_REAP_S)
        progress = stage.probe.latest if stage.disturbances.server_silent else stage.probe.look()
        # A fault that begins or ends counts as movement: behind each, an arm has its whole patience again.
        stage.movement.note((*progress.mark, stage.disturbances.changes))
        stage.disturbances.tick(progress.terminal, progress.rows)
        fired = stage.fired
        stage.rig.display.update(progress.terminal, f"{fired}/{len(stage.kills)} kills, {progress.takeovers} takeovers")
        if reached() or stage.movement.stands_still or time.monotonic_ns() > limit_ns:
            return
