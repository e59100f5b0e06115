"""The first code of a node's process: sets up its instruments and becomes the engine's node."""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import uvloop

from ninelives_rig import starvation
from ninelives_rig.armory import DELIVERIES, Armory, Bearer
from ninelives_rig.engines import load_engine
from ninelives_rig.engines.base import NodeOrder
from ninelives_rig.identity import ProcessIdentity
from ninelives_rig.recorder import Recorder
from ninelives_rig.rundir import register_process
from ninelives_rig.schedule import Kill, instance_id
from ninelives_rig.sink import Sink
from ninelives_rig.starts import StartList
from ninelives_rig.tools import NodeTools
from ninelives_rig.witness import Witness

EXIT_FAILED = 70


def enter(order: NodeOrder, kills: list[Kill], run_directory: Path, go: Connection) -> None:
    """Be the node of this order until told to stop; ends with exit code 0 after a drain, 70 after an error."""
    os.setpgid(0, 0)
    identity = ProcessIdentity.current()
    register_process(run_directory, identity, order.process)
    _redirect(order.arm_root / "logs" / f"{order.process}.log")
    if not _may_begin(go):
        os._exit(EXIT_FAILED)
    gc.freeze()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_be_node(order, kills, identity))
    except BaseException as error:
        print(f"{order.process}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        raise


def _may_begin(go: Connection) -> bool:
    """Wait for the coordinator to have written this process down; False if it died meanwhile."""
    try:
        return bool(go.recv_bytes() == b"go")
    except EOFError:
        return False
    finally:
        go.close()


def _redirect(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


async def _be_node(order: NodeOrder, kills: list[Kill], identity: ProcessIdentity) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    starvation.answer_requests(order.work_root)
    tools = equip(order, kills, identity, stopping)
    if order.extra.get("plants"):
        # Only here, and only for sabotage: an ordinary node never loads it.
        importlib.import_module("ninelives_rig.sabotage.planting").plant(order.extra["plants"].split(","))
    engine = load_engine(order.engine)
    try:
        await engine.run_node(order, tools)
    finally:
        tools.recorder.event("node.closed", effects=tools.witness.written)


def equip(order: NodeOrder, kills: list[Kill], identity: ProcessIdentity, stopping: asyncio.Event) -> NodeTools:
    """Build the instruments of one node over the arm's directories."""
    root = order.arm_root
    arm = root.name
    bearer = Bearer(order.process, order.role, identity.pid, identity.start_time)
    recorder = Recorder(root / "history", order.process)
    witness = Witness(root / "witness" / f"{order.process}.jsonl", order.process)

    def strike() -> None:
        """Close this process's books and die. The receipt is written already, so that this line follows it."""
        recorder.event("node.struck", effects=witness.written)
        DELIVERIES[order.delivery]()

    return NodeTools(
        order=order,
        recorder=recorder,
        witness=witness,
        sink=Sink(order.work_root / "sink"),
        armory=Armory(kills, root / "receipts", bearer, strike),
        starts=StartList(
            order.work_root / f"{order.slot}.marks",
            order.start_indexes,
            lambda index: instance_id(order.seed, arm, index),
            serial=order.in_flight == 1,
        ),
        stopping=stopping,
    )
