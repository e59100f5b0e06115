"""Our own runtime as a system under test, through its public API only: it gets no privilege here.

The one exception is reading: progress and evidence are read from its tables by plain SQL, as an operator
would.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from uuid import UUID

import orjson
import psycopg
from psycopg import sql

import ninelives
from ninelives.boundaries import Boundary, observe
from ninelives_rig.engines.base import (
    EFFECTS,
    WORKLOAD_ENTERED,
    WORKLOAD_RETURNED,
    Capabilities,
    NodeOrder,
    Operator,
    Position,
    Running,
    Starter,
    StepSpec,
    Store,
    Workload,
)
from ninelives_rig.engines.reference_faults import lose_answers
from ninelives_rig.tools import NodeTools, Visit

_LANE_FLOWS = 64
"""As many flows as one connection for commits serves well; each connection of a node costs it a start-up."""
_ASK_AGAIN_S = 0.2
_TERMINAL = ("Completed", "Failed", "TimedOut", "CompensationFailed", "Terminated")
_TABLES = {
    "instance": "flow_instance",
    "step": "flow_step",
    "intent": "flow_intent",
    "lease": "flow_lease",
    "wake": "flow_wake",
    "signal": "flow_signal",
    "session": "node_session",
    "ledger": "rig_ledger",
}
_EVENTS = {
    Boundary.CLAIM_COMMITTED: "claimed",
    Boundary.FINISH_COMMITTED: "finished",
    Boundary.LEASE_LOST: "fenced",
}

Body = Callable[[ninelives.Call, Any], Awaitable[Any]]


def build_flow(workload: Workload, tools: NodeTools | None, schema: str, version: str) -> ninelives.Flow:
    """Build the runtime's flow for a workload. A client that runs nothing needs no tools.

    Capabilities have the flow's version, so that each row tells which version of the flow wrote it.
    """
    flow = ninelives.Flow(workload.flow_name, version=version)
    for step in workload.steps:
        if step.kind == "signal":
            flow = flow.await_signal(step.name)
        else:
            flow = flow.step(step.name, _capability(step, tools, schema, version))
    return flow


def _capability(step: StepSpec, tools: NodeTools | None, schema: str, version: str) -> ninelives.Capability:
    bodies = {"idempotent": _idempotent, "at_most_once": _at_most_once, "transactional": _transactional}
    effect: Any = {
        "idempotent": ninelives.Idempotent(),
        "at_most_once": ninelives.AtMostOnce(reconcile=_reconcile(tools)),
        "transactional": ninelives.Transactional(),
    }[step.effect]
    return ninelives.capability(
        f"rig.{step.name}",
        version=version,
        effect=effect,
        retry=ninelives.RetryPolicy(attempts_max=step.failures + 3, delay_s=step.retry_delay_s, factor=1.0, jitter=0.0),
    )(bodies[step.effect](step, tools, schema))


def _visit(call: ninelives.Call) -> Visit:
    return Visit(call.instance_id, call.scope, call.step_id, call.attempt, call.token, call.idempotency_key)


def _idempotent(step: StepSpec, tools: NodeTools | None, schema: str) -> Body:
    """The effect is a line of the witness, repeated whenever the step is."""

    async def body(call: ninelives.Call, value: Any) -> Any:
        assert tools is not None
        visit = _visit(call)
        tools.entered(step, visit)
        await asyncio.sleep(step.lead_s)
        tools.affect(visit)
        await asyncio.sleep(step.service_s)
        tools.returning(visit)
        return {"step": call.step_id}

    return body


def _at_most_once(step: StepSpec, tools: NodeTools | None, schema: str) -> Body:
    """The effect goes to the sink, which knows each key and can refuse it."""

    async def body(call: ninelives.Call, value: Any) -> Any:
        assert tools is not None
        visit = _visit(call)
        tools.entered(step, visit)
        await asyncio.sleep(step.lead_s)
        tools.affect_once(visit)
        await asyncio.sleep(step.service_s)
        tools.returning(visit)
        return {"step": call.step_id}

    return body


def _reconcile(tools: NodeTools | None) -> Callable[[ninelives.Call], Awaitable[Any]]:
    """Settle a doubt: what the sink has is done, and what it has not it will refuse from now on."""

    async def reconcile(call: ninelives.Call) -> Any:
        assert tools is not None
        applied = tools.sink.void(call.idempotency_key)
        return ninelives.Voided() if applied is None else ninelives.Done({"step": call.step_id})

    return reconcile


def _transactional(step: StepSpec, tools: NodeTools | None, schema: str) -> Body:
    """The effect is a row of a ledger in the same database, in the transaction of the step's commit."""
    insert = sql.SQL(
        "insert into {} (t_us, instance_id, scope, step_id, attempt, token, pid) values ($1, $2, $3, $4, $5, $6, $7)"
    ).format(sql.Identifier(schema, "rig_ledger"))

    async def body(call: ninelives.Call, value: Any) -> Any:
        assert tools is not None
        visit = _visit(call)
        tools.entered(step, visit)
        await asyncio.sleep(step.lead_s)
        row = (time.monotonic_ns() // 1000, visit.instance_id, visit.scope, visit.step_id)
        await call.connection.execute(insert, [*row, visit.attempt, visit.token, os.getpid()])
        await asyncio.sleep(step.service_s)
        tools.returning(visit)
        return {"step": call.step_id}

    return body


class _Handle:
    """A started instance. A node writes down what it was told of its end; whether that is so, the checkers find out."""

    def __init__(self, handle: ninelives.Handle, tools: NodeTools | None) -> None:
        self._handle = handle
        self._tools = tools

    async def finished(self) -> None:
        while True:
            try:
                state, result = "Completed", await self._handle.result()
            except ninelives.InstanceFailed as failure:
                state, result = failure.state, failure.error
            except ninelives.StoreUnavailable:
                # The store is away, and says so to whoever asks; the instance goes on when it is back.
                await asyncio.sleep(_ASK_AGAIN_S)
                continue
            break
        if self._tools is not None:
            told = {"state": state, "result": orjson.dumps(result).decode()}
            self._tools.recorder.event("ended", instance_id=str(self._handle.instance_id), **told)


class _Starter:
    """Starts through a client, or through a node, which then runs what it started."""

    def __init__(
        self, via: ninelives.Client | ninelives.Node, flow: ninelives.Flow, tools: NodeTools | None = None
    ) -> None:
        self._via = via
        self._flow = flow
        self._tools = tools

    async def start(self, index: int, instance_id: UUID) -> Running:
        return _Handle(await self._via.start(self._flow, {"index": index}, instance_id=instance_id), self._tools)


class _Operator:
    """Signals, pauses and resumes through a client."""

    def __init__(self, client: ninelives.Client) -> None:
        self._client = client

    async def signal(self, instance_id: UUID, name: str, signal_id: str) -> str:
        return await self._client.signal(instance_id, name, {"signal": signal_id}, signal_id=signal_id)

    async def pause(self, instance_id: UUID) -> None:
        await self._client.pause(instance_id)

    async def resume(self, instance_id: UUID) -> None:
        await self._client.resume(instance_id)


def _observer(tools: NodeTools) -> Callable[[Boundary, UUID | None, str, int, int, int], None]:
    """Write down what the checkers need, then let the armory strike."""
    recorder, armory = tools.recorder, tools.armory

    def observer(
        boundary: Boundary, instance_id: UUID | None, scope: str, step_id: int, attempt: int, token: int
    ) -> None:
        event = _EVENTS.get(boundary)
        if event == "claimed":
            recorder.event(event, instance_id=str(instance_id), token=token, takeover=token > 1)
        elif event is not None:
            recorder.event(event, instance_id=str(instance_id), token=token)
        armory.reached(boundary.value, instance_id, scope, step_id, attempt, token)

    return observer


class ReferenceEngine:
    """The runtime of this repository."""

    name = "reference"
    preload = ("ninelives_rig.engines.reference",)
    capabilities = Capabilities(
        journal=True,
        tokens=True,
        intents=True,
        effects=frozenset(EFFECTS),
        boundaries=frozenset({*(boundary.value for boundary in Boundary), WORKLOAD_ENTERED, WORKLOAD_RETURNED}),
        positions={
            "before-commit": Position(Boundary.BODY_RETURNED.value),
            # Whoever runs the next step must enter its body, while the moment of the acknowledgement is missed for
            # ever when its node dies of another kill just before. An intent comes before the body, though.
            "after-commit": Position(Boundary.BODY_ENTERED.value, step_offset=1),
            "at_most_once.after-commit": Position(Boundary.JOURNAL_COMMITTED.value),
        },
        features=frozenset({"signals", "bury", "lost_answers", "versions"}),
    )

    def prepare(self, store: Store) -> None:
        """Migrate a schema of its own and add the ledger, which has no unique key on purpose."""
        ninelives.migrate(store.dsn, schema=store.schema)
        with psycopg.connect(store.dsn, autocommit=True) as connection:
            connection.execute(
                sql.SQL(
                    "create table {} (t_us bigint not null, instance_id uuid not null, scope text not null,"
                    " step_id int not null, attempt int not null, token bigint not null, pid int not null)"
                ).format(sql.Identifier(store.schema, "rig_ledger"))
            )

    def discard(self, store: Store) -> None:
        """Drop the schema."""
        with psycopg.connect(store.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(store.schema)))

    @asynccontextmanager
    async def _client(self, store: Store, workload: Workload, version: str) -> AsyncIterator[Starter]:
        flow = build_flow(workload, None, store.schema, version)
        async with ninelives.connect(store.dsn, schema=store.schema) as client:
            yield _Starter(client, flow)

    def client(self, store: Store, workload: Workload, version: str) -> AbstractAsyncContextManager[Starter]:
        """Open a client that starts instances."""
        return self._client(store, workload, version)

    @asynccontextmanager
    async def operator(self, store: Store) -> AsyncIterator[Operator]:
        """Open a client that operates instances."""
        async with ninelives.connect(store.dsn, schema=store.schema) as client:
            yield _Operator(client)

    def bury(self, store: Store, process: str) -> bool:
        """Mark the session of a living node as dead and say so, as a mistaken neighbour would; its connections stay."""
        update = sql.SQL(
            "with dead as (update {} set dead_at = clock_timestamp()"
            " where node_name = %s and dead_at is null returning 1)"
            " select pg_notify('ninelives_' || md5(%s) || '_s', '') from dead"
        ).format(sql.Identifier(store.schema, "node_session"))
        with psycopg.connect(store.dsn, autocommit=True) as connection:
            return connection.execute(update, [process, store.schema]).rowcount > 0

    async def run_node(self, order: NodeOrder, tools: NodeTools) -> None:
        """Run one node until told to stop, then drain it."""
        flow = build_flow(order.workload, tools, order.store.schema, order.version)
        settings = ninelives.Settings(
            ttl_s=order.settings.ttl_s,
            in_flight_max=order.settings.flows_max,
            recovery_in_flight_max=order.settings.takeovers_max,
            drain_s=order.settings.drain_s,
            lanes=1 if order.settings.flows_max <= _LANE_FLOWS else 2,
        )
        observe(_observer(tools))
        lose_answers(order.lost_answers, tools.recorder)
        async with ninelives.Node(
            order.store.dsn, flows=[flow], settings=settings, schema=order.store.schema, name=order.process
        ) as node:
            tools.recorder.event("node.opened", session_id=getattr(node, "session_id", None))
            await tools.serve_starts(_Starter(node, flow, tools), self.is_refusal)
            await tools.stopping.wait()
            await node.drain()

    def progress_query(self, store: Store) -> sql.Composed:
        """Count instances, terminal ones, journal rows, and instances that a second token was issued for."""
        return sql.SQL(
            "select count(*), count(*) filter (where state = any({})), coalesce(sum(next_sequence - 1), 0),"
            " count(*) filter (where fence > 1) from {}"
        ).format(sql.Literal(list(_TERMINAL)), sql.Identifier(store.schema, "flow_instance"))

    def tables(self, store: Store) -> Mapping[str, sql.Composed]:
        """Whole tables, in the order of their first column."""
        return {
            name: sql.SQL("select * from {} order by 1, 2").format(sql.Identifier(store.schema, table))
            for name, table in _TABLES.items()
        }

    def is_refusal(self, error: Exception) -> bool:
        """An error that the runtime raises before it asks the server, or that the server answered with."""
        return isinstance(error, ninelives.PayloadRefused | ninelives.InstanceConflict)


ENGINE = ReferenceEngine()
