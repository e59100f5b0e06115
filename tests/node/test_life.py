"""What becomes of an instance on one healthy node: results, retries, captures, refusals, signals."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.node import flows
from tests.node.flows import effects
from tests.node.helpers import instance, journal, make_node, run, sql, until, until_parked

from ninelives import (
    Call,
    Flow,
    InstanceFailed,
    InstanceFinished,
    InstanceUnknown,
    PayloadRefused,
    RetryPolicy,
    State,
    capability,
    connect,
)

pytestmark = pytest.mark.postgres


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    return {"log": str(tmp_path / "log")}


def test_a_flow_started_on_a_node_or_by_a_client_runs_every_step_once(store_dsn: str, given: dict[str, Any]) -> None:
    async def main() -> None:
        async with make_node(store_dsn) as node, connect(store_dsn) as client:
            handles = [await node.start(flows.THREE, given), await client.start(flows.THREE, given)]
            for handle in handles:
                assert await handle.result(20) == "three"
                rows = journal(store_dsn, handle.instance_id)
                assert [row[:4] for row in rows] == [(1, 1, 1, "one"), (2, 2, 1, "two"), (3, 3, 1, "three")]
                assert instance(store_dsn, handle.instance_id)["wake"] is False
            assert len(effects(Path(given["log"]))) == 6

    run(main())


def test_each_failed_attempt_is_a_row_and_the_capture_is_replayed(store_dsn: str, given: dict[str, Any]) -> None:
    async def main() -> None:
        async with make_node(store_dsn) as node:
            handle = await node.start(flows.CAPTURING, {**given, "fails": 2})
            result = await handle.result(20)
            seen = [json.loads(line) for line in Path(given["log"]).read_text().splitlines()]
            assert seen == [result] * 3
            assert seen[0][1] != seen[0][2]
            rows = sql(store_dsn, "select attempt, outcome, nondeterministic from ninelives.flow_step order by 1")
            assert [row[:2] for row in rows] == [(1, "Failure"), (2, "Failure"), (3, "Success")]
            assert all(row[2] == rows[0][2] and len(row[2]) == 3 for row in rows)

    run(main())


def test_the_captured_clock_is_the_database_s(store_dsn: str, given: dict[str, Any]) -> None:
    async def main() -> None:
        async with make_node(store_dsn) as node:
            before = sql(store_dsn, "select clock_timestamp()")[0][0]
            result = await (await node.start(flows.CAPTURING, given)).result(20)
            after = sql(store_dsn, "select clock_timestamp()")[0][0]
            assert before.isoformat() < result[0] or (before - after).total_seconds() < 0.1
            assert abs(node.clock_us() / 1e6 - after.timestamp()) < 1.0

    run(main())


def test_retries_used_up_fail_the_instance_and_say_why(store_dsn: str, given: dict[str, Any]) -> None:
    async def main() -> None:
        async with make_node(store_dsn) as node:
            handle = await node.start(flows.FAILING, {**given, "text": "no luck"})
            with pytest.raises(InstanceFailed, match="no luck") as caught:
                await handle.result(20)
            assert caught.value.state == "Failed"
            assert caught.value.error["attempts"] == 3
            assert [row[2] for row in journal(store_dsn, handle.instance_id)] == [1, 2, 3]
            assert instance(store_dsn, handle.instance_id)["wake"] is False

    run(main())


def test_a_permanent_error_is_not_retried(store_dsn: str, given: dict[str, Any]) -> None:
    async def main() -> None:
        async with make_node(store_dsn) as node:
            handle = await node.start(flows.FAILING, {**given, "permanent": True})
            with pytest.raises(InstanceFailed, match="no use"):
                await handle.result(20)
            assert len(effects(Path(given["log"]))) == 1

    run(main())


def test_an_error_text_that_the_store_cannot_hold_is_recorded_all_the_same(
    store_dsn: str, given: dict[str, Any]
) -> None:
    @capability("tests.hostile-error", version="1", retry=RetryPolicy(attempts_max=1))
    async def hostile(call: Call, value: Any) -> None:
        raise RuntimeError("nul \0, half \ud800, and " + "x" * 100_000)

    async def main() -> None:
        flow = Flow("tests.hostile", version="1").step("only", hostile)
        async with make_node(store_dsn, [flow]) as node:
            handle = await node.start(flow)
            with pytest.raises(InstanceFailed) as caught:
                await handle.result(20)
            assert caught.value.state == "Failed"
            ((recorded,),) = sql(store_dsn, "select result::text from ninelives.flow_step")
            assert "nul" in recorded and "half" in recorded

    run(main())


def test_payloads_that_cannot_be_stored_are_refused_by_path_where_they_are_given(store_dsn: str) -> None:
    results: list[Any] = [{"lines": [1, {"price": float("nan")}]}, {"text": "a\0b"}, {"big": 1 << 64}, object()]
    paths = ["$.lines[1].price", "$.text", "$.big", "$"]

    @capability("tests.hostile-result", version="1")
    async def hostile(call: Call, number: int) -> Any:
        return results[number]

    async def main() -> None:
        flow = Flow("tests.results", version="1").step("only", hostile)
        async with make_node(store_dsn, [flow]) as node:
            for number, path in enumerate(paths):
                with pytest.raises(PayloadRefused) as at_start:
                    await node.start(flow, results[number])
                assert at_start.value.path == path
                with pytest.raises(PayloadRefused) as at_signal:
                    await node.signal(uuid4(), "go", results[number])
                assert at_signal.value.path == path
                handle = await node.start(flow, number)
                with pytest.raises(InstanceFailed, match="result of step 'only'") as at_end:
                    await handle.result(20)
                assert path in str(at_end.value)
                assert len(journal(store_dsn, handle.instance_id)) == 1
            assert sql(store_dsn, "select count(*) from ninelives.flow_signal") == [(0,)]

    run(main())


@pytest.mark.parametrize("payload", [0, -0.0, 1e22, 2**63 - 1, "", "é\u2028", [], {"b": 1, "a": {"": None}}, None])
def test_payloads_come_through_unchanged(store_dsn: str, payload: Any) -> None:
    @capability("tests.echo", version="1")
    async def echo(call: Call, value: Any) -> Any:
        return value

    async def main() -> None:
        flow = Flow("tests.echoes", version="1").step("one", echo).await_signal("go").step(
            "two", echo, input=lambda state: [state.input, state["one"], state["go"]]
        )  # fmt: skip
        async with make_node(store_dsn, [flow]) as node:
            handle = await node.start(flow, payload)
            await until_parked(store_dsn, handle.instance_id)
            assert await node.signal(handle.instance_id, "go", payload) == "accepted"
            assert json.dumps(await handle.result(20)) == json.dumps([payload] * 3)

    run(main())


def test_a_time_out_cuts_an_attempt_off_and_counts_it(store_dsn: str) -> None:
    attempts: list[int] = []

    @capability("tests.slow", version="1", timeout_s=0.05, retry=flows.SOON)
    async def slow(call: Call, value: Any) -> str:
        attempts.append(call.attempt)
        if call.attempt < 3:
            await asyncio.Event().wait()
        return "in time"

    async def main() -> None:
        flow = Flow("tests.slow-flow", version="1").step("only", slow)
        async with make_node(store_dsn, [flow]) as node:
            handle = await node.start(flow)
            assert await handle.result(20) == "in time"
            assert attempts == [1, 2, 3]
            first = sql(store_dsn, "select result from ninelives.flow_step order by attempt")[0][0]
            assert first["code"] == "step.timed_out" and "0.05 s" in first["message"]

    run(main())


def test_a_body_that_is_cancelled_from_within_has_failed(store_dsn: str) -> None:
    """A cancelled task inside a body is that body's failure: the instance must not hang in a living node."""

    @capability("tests.cancelled", version="1", retry=flows.SOON)
    async def cancelled(call: Call, value: Any) -> str:
        if call.attempt == 1:
            task = asyncio.ensure_future(asyncio.Event().wait())
            task.cancel()
            await task
        return "second"

    async def main() -> None:
        flow = Flow("tests.cancelled-flow", version="1").step("only", cancelled)
        async with make_node(store_dsn, [flow]) as node:
            assert await (await node.start(flow)).result(10) == "second"

    run(main())


def test_a_long_retry_delay_is_spent_parked_and_taken_up_again(store_dsn: str, given: dict[str, Any]) -> None:
    async def main() -> None:
        async with make_node(store_dsn) as node:
            handle = await node.start(flows.SLOW_RETRY, given)
            await until_parked(store_dsn, handle.instance_id)
            assert 0 < instance(store_dsn, handle.instance_id)["due_in_s"] <= 1.2
            await until("the node is idle", lambda: node.in_flight == 0)
            assert await handle.result(20) == "later"
            (rows,) = sql(
                store_dsn,
                "select extract(epoch from b.committed_at - a.retry_at)::float from ninelives.flow_step a"
                " join ninelives.flow_step b on b.attempt = 2 where a.attempt = 1",
            )
            assert 0 <= rows[0] < 5.0
            assert [line[1] for line in effects(Path(given["log"]))] == [1, 2]

    run(main())


@pytest.mark.parametrize("on_node", [True, False])
def test_a_signal_sent_before_the_start_is_consumed_once(
    store_dsn: str, given: dict[str, Any], on_node: bool
) -> None:
    async def main() -> None:
        async with make_node(store_dsn) as node, connect(store_dsn) as client:
            made = uuid4()
            assert await client.signal(made, "go", "early", signal_id="s") == "buffered"
            starter = node if on_node else client
            handle = await starter.start(flows.WAITING, given, instance_id=made)
            assert await handle.result(10) == "early"
            assert await client.signal(made, "go", "late", signal_id="s") == "duplicate"
            assert await client.signal(made, "go", "late") == "finished"
            assert len(journal(store_dsn, made)) == 1

    run(main())


def test_signals_race_parks_and_none_is_lost(store_dsn: str, given: dict[str, Any]) -> None:
    async def main() -> None:
        async with make_node(store_dsn) as node, connect(store_dsn) as client:

            async def one(number: int) -> Any:
                handle = await node.start(flows.SIGNALLED, given)
                for _ in range(number % 7):
                    await asyncio.sleep(0)
                told = [await client.signal(handle.instance_id, "go", number, signal_id="s") for _ in range(2)]
                assert told in (["accepted", "duplicate"], ["accepted", "finished"])
                return await handle.result(20)

            assert await asyncio.gather(*(one(number) for number in range(100))) == ["after"] * 100
            assert sql(store_dsn, "select count(*) from ninelives.flow_signal where consumed_step_id = 2") == [(100,)]

    run(main())


def test_pause_stops_the_next_step_and_resume_goes_on(store_dsn: str, given: dict[str, Any], tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    async def main() -> None:
        async with make_node(store_dsn) as node:
            handle = await node.start(flows.GATED, {**given, "gate": str(gate)})
            await until("the body runs", (tmp_path / "gate.reached").exists)
            await node.pause(handle.instance_id)
            gate.touch()
            await until("the pause is observed", lambda: not node.in_flight)
            assert [line[0] for line in effects(Path(given["log"]))] == ["before", "wait"]
            row = instance(store_dsn, handle.instance_id)
            assert (row["paused"], row["holder"], row["scheduled"], row["next_sequence"]) == (True, None, False, 3)
            await node.resume(handle.instance_id)
            assert await handle.result(20) == "after"
            with pytest.raises(InstanceFinished):
                await node.pause(handle.instance_id)
            with pytest.raises(InstanceUnknown):
                await node.resume(uuid4())

    run(main())


def test_a_pause_at_the_last_step_keeps_its_result_and_ends_after_the_resume(
    store_dsn: str, given: dict[str, Any], tmp_path: Path
) -> None:
    flow = Flow("tests.gate-only", version="1").step("wait", flows.gated)
    gate = tmp_path / "gate"

    async def main() -> None:
        async with make_node(store_dsn, [flow]) as node:
            handle = await node.start(flow, {**given, "gate": str(gate)})
            await until("the body runs", (tmp_path / "gate.reached").exists)
            await node.pause(handle.instance_id)
            gate.touch()
            await until("the pause is observed", lambda: not node.in_flight)
            assert len(journal(store_dsn, handle.instance_id)) == 1
            assert instance(store_dsn, handle.instance_id)["wake"] is True
            await node.resume(handle.instance_id)
            assert await handle.result(20) == "wait"
            assert len(effects(Path(given["log"]))) == 1

    run(main())


def test_the_state_tells_what_is_finished(store_dsn: str) -> None:
    @capability("tests.reads", version="1", retry=RetryPolicy(attempts_max=1))
    async def reads(call: Call, value: Any) -> Any:
        return value

    def too_early(state: State) -> Any:
        return state["second"]

    async def main() -> None:
        flow = Flow("tests.early", version="1").step("first", reads, input=too_early).step("second", reads)
        async with make_node(store_dsn, [flow]) as node:
            with pytest.raises(InstanceFailed, match="second"):
                await (await node.start(flow)).result(20)

    run(main())
