"""`ninelives node`: one process that runs flows until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer

from ninelives.cli.loading import load_flows
from ninelives.cli.options import Dsn, Json, Schema, ready, text_of
from ninelives.cli.report import note, print_json, reported, run_async
from ninelives.node import Node
from ninelives.registry import Registry
from ninelives.settings import Settings


class LogLevel(StrEnum):
    """How much a node says on standard error."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


_DEFAULT = Settings()

Flows = Annotated[list[str], typer.Argument(metavar="MODULE:FLOW", help="Flows to run, like shop.flows:place_order.")]
Name = Annotated[
    str | None, typer.Option(metavar="TEXT", help="For people. Default: host and process.", show_default=False)
]
TtlS = Annotated[float, typer.Option(help="Seconds without a heartbeat after which the node counts as dead.")]
InFlightMax = Annotated[int, typer.Option(help="Instances at work at once.")]
RecoveryInFlightMax = Annotated[int, typer.Option(help="Further instances taken over from dead nodes.")]
PollS = Annotated[float, typer.Option(help="Seconds between looks for due work.")]
LookS = Annotated[float, typer.Option(help="Seconds between looks over all nodes.")]
DrainS = Annotated[float, typer.Option(help="Seconds that running steps have after SIGTERM.")]
PayloadLimitBytes = Annotated[int, typer.Option(help="Largest input, result or signal.")]
ClaimsMax = Annotated[int, typer.Option(help="Claims without a commit after which an instance is failed.")]
Lanes = Annotated[int, typer.Option(help="Connections that carry commits.")]
TransactionsMax = Annotated[int, typer.Option(help="Connections for transactional steps.")]
ConnectTimeoutS = Annotated[int, typer.Option(help="Seconds to wait for a connection.")]
Level = Annotated[LogLevel, typer.Option(help="What is written to standard error.")]


def node_command(
    flows: Flows,
    name: Name = None,
    ttl_s: TtlS = _DEFAULT.ttl_s,
    in_flight_max: InFlightMax = _DEFAULT.in_flight_max,
    recovery_in_flight_max: RecoveryInFlightMax = _DEFAULT.recovery_in_flight_max,
    poll_s: PollS = _DEFAULT.poll_s,
    look_s: LookS = _DEFAULT.look_s,
    drain_s: DrainS = _DEFAULT.drain_s,
    payload_limit_bytes: PayloadLimitBytes = _DEFAULT.payload_limit_bytes,
    claims_max: ClaimsMax = _DEFAULT.claims_max,
    lanes: Lanes = _DEFAULT.lanes,
    transactions_max: TransactionsMax = _DEFAULT.transactions_max,
    connect_timeout_s: ConnectTimeoutS = _DEFAULT.connect_timeout_s,
    log_level: Level = LogLevel.INFO,
    dsn: Dsn = "",
    schema: Schema = "ninelives",
    json: Json = False,
) -> None:
    """Run flows until SIGTERM or Ctrl-C; then let steps end, give every instance back, and leave with 0."""
    logging.basicConfig(level=log_level.value.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    with reported(json, lambda: "what it held becomes due at once for other nodes"):
        settings = Settings(
            ttl_s=ttl_s,
            in_flight_max=in_flight_max,
            recovery_in_flight_max=recovery_in_flight_max,
            poll_s=poll_s,
            look_s=look_s,
            drain_s=drain_s,
            payload_limit_bytes=payload_limit_bytes,
            claims_max=claims_max,
            lanes=lanes,
            transactions_max=transactions_max,
            connect_timeout_s=connect_timeout_s,
        )
        called = text_of("--name", name if name is not None else f"{socket.gethostname()}:{os.getpid()}")
        loaded = load_flows(flows)
        Registry(loaded)
        checked = ready(dsn, schema)
        run_async(
            lambda: _serve(lambda: Node(checked, flows=loaded, schema=schema, settings=settings, name=called), json)
        )


async def _serve(make: Callable[[], Node], json: bool) -> None:
    """Serve until a signal; one that comes while the node still connects means an orderly stop as well."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with make() as node:
        plans = [str(plan) for plan in node.registry.plans]
        note(f"node {node.name} (session {node.session_id}) runs {', '.join(plans)}; Ctrl-C or SIGTERM ends it")
        if json:
            told = {"event": "ready", "node": node.name, "session_id": node.session_id, "flows": plans}
            print_json(told, line=True)
        await stop.wait()
        # A second signal kills, also when a body blocks the loop: to the others it is a crash like any other.
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        note(f"leaving: {node.in_flight} instances at work have {node.settings.drain_s:g} s; Ctrl-C again ends it now")
        await node.drain()
    if json:
        told = {"event": "stopped", "node": node.name, "finished": node.finished, "takeovers": node.takeovers}
        print_json(told, line=True)
    note(f"node {node.name} has left: {node.finished} instances finished, {node.takeovers} taken over")
