"""at_most_once: what was announced and not settled is never run again blindly, and never lost sight of."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.node import flows
from tests.node.flows import effects
from tests.node.helpers import child, instance, journal, make_node, run, sql, until, until_parked

from ninelives import AtMostOnce, Call, Flow, InstanceFailed, RetryPolicy, Voided, capability, connect

pytestmark = pytest.mark.postgres


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    return {"log": str(tmp_path / "log"), "deadly": True}


def intents(dsn: str) -> list[tuple[Any, ...]]:
    return sql(dsn, "select attempt, token, doubted_token, outcome from ninelives.flow_intent order by attempt")


@pytest.fixture(autouse=True)
def probe_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the probe of the flow `ONCE` finds its answers."""
    monkeypatch.setattr(flows, "PROBE_FOLDER", str(tmp_path))
    return tmp_path


async def killed_between_intent_and_outcome(
    dsn: str, flow: Flow, given: dict[str, Any], answer: str, folder: Path
) -> UUID:
    """Let a child announce the effect, make it, and die; the probe will answer `answer`."""
    async with connect(dsn) as client:
        handle = await client.start(flow, given)
        (folder / f"{handle.instance_id}.answer").write_text(answer)
        with child(dsn, probe=folder) as victim:
            assert await asyncio.to_thread(victim.process.wait, 20) == -9
        return handle.instance_id


def test_done_takes_the_result_of_the_probe_and_runs_nothing(
    store_dsn: str, given: dict[str, Any], tmp_path: Path
) -> None:
    async def main() -> None:
        made = await killed_between_intent_and_outcome(store_dsn, flows.ONCE, given, "done", tmp_path)
        async with make_node(store_dsn) as node:
            assert await node.handle(made).result(20) == "after"
            assert [row[1:5] for row in journal(store_dsn, made)] == [(1, 1, "found", 2), (2, 1, "after", 2)]
            assert intents(store_dsn) == [(1, 1, 2, "done")]
        assert [line[0] for line in effects(tmp_path / "log")] == ["once", "after"]

    run(main())


def test_voided_runs_again_under_a_new_key(store_dsn: str, given: dict[str, Any], tmp_path: Path) -> None:
    async def main() -> None:
        made = await killed_between_intent_and_outcome(store_dsn, flows.ONCE, given, "voided", tmp_path)
        async with make_node(store_dsn) as node:
            assert await node.handle(made).result(20) == "after"
            assert [row[1:4] for row in journal(store_dsn, made)] == [(1, 2, "attempt 2"), (2, 1, "after")]
            assert intents(store_dsn) == [(1, 1, 2, "voided"), (2, 2, None, "committed")]
        first, second = [line for line in effects(tmp_path / "log") if line[0] == "once"]
        assert (first[1], second[1]) == (1, 2)
        assert second[4] == first[4] + "/void1"

    run(main())


@pytest.mark.parametrize(
    ("flow", "answer"),
    [(flows.ONCE, "unknown"), (flows.ONCE, "exit"), (flows.ONCE_BLIND, "unknown")],
    ids=["unknown", "the probe exits", "no-probe"],
)
def test_anything_else_is_in_doubt_until_an_operator_says_so(
    store_dsn: str, given: dict[str, Any], tmp_path: Path, flow: Any, answer: str
) -> None:
    async def main() -> None:
        made = await killed_between_intent_and_outcome(store_dsn, flow, given, answer, tmp_path)
        async with make_node(store_dsn) as node:
            await until_parked(store_dsn, made)
            assert intents(store_dsn) == [(1, 1, 2, None)]
            assert instance(store_dsn, made)["scheduled"] is False
            assert not await node.rerun_in_doubt(made, 2)
            # That woke it, and it rests again.
            await until("parked", lambda: node.in_flight == 0 and instance(store_dsn, made)["seen_seq"] == 2)
            await until_parked(store_dsn, made)
            assert await node.rerun_in_doubt(made, 1)
            assert await node.handle(made).result(20) == "after"
            assert not await node.rerun_in_doubt(made, 1)
            assert [row[3] for row in intents(store_dsn)] == ["voided", "committed"]
        assert [line[:2] for line in effects(tmp_path / "log")] == [["once", 1], ["once", 2], ["after", 1]]

    run(main())


def test_a_body_that_fails_leaves_a_doubt_and_is_not_retried(
    store_dsn: str, given: dict[str, Any], tmp_path: Path
) -> None:
    async def main() -> None:
        async with make_node(store_dsn) as node:
            handle = await node.start(flows.ONCE_BLIND, {**given, "deadly": False, "fails": True})
            await until_parked(store_dsn, handle.instance_id)
            assert journal(store_dsn, handle.instance_id) == []
            assert await node.rerun_in_doubt(handle.instance_id, 1)
            assert await handle.result(20) == "after"
        assert [line[1] for line in effects(tmp_path / "log") if line[0] == "once"] == [1, 2]

    run(main())


def test_an_input_that_cannot_be_made_is_a_failed_attempt_and_announces_nothing(store_dsn: str) -> None:
    async def main() -> None:
        empty = Flow("tests.once-no-input", version="1")
        flow = empty.step("only", flows.once_blind, input=lambda state: state["none"])
        async with make_node(store_dsn, [flow]) as node:
            with pytest.raises(InstanceFailed, match="none"):
                await (await node.start(flow)).result(20)
            assert intents(store_dsn) == []

    run(main())


def test_a_result_that_cannot_be_stored_is_a_recorded_failure_and_no_doubt(store_dsn: str) -> None:
    @capability("tests.once-hostile", version="1", effect=AtMostOnce)
    async def hostile(call: Call, value: Any) -> Any:
        return {"nan": float("nan")}

    async def main() -> None:
        flow = Flow("tests.once-hostile-flow", version="1").step("only", hostile)
        async with make_node(store_dsn, [flow]) as node:
            handle = await node.start(flow)
            with pytest.raises(InstanceFailed, match=r"\$\.nan"):
                await handle.result(20)
            assert intents(store_dsn) == [(1, 1, None, "committed")]

    run(main())


def test_a_holder_that_is_fenced_while_in_doubt_stops(
    store_dsn: str, given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks the store once more, learns that the lease is gone, and drops the instance."""
    (tmp_path / "gate").touch()

    async def main() -> None:
        made = await killed_between_intent_and_outcome(store_dsn, flows.ONCE, given, "unknown", tmp_path)
        async with make_node(store_dsn) as node:
            doubt = node.control.doubt
            asked: list[bool] = []

            async def fenced_first(*arguments: Any) -> bool:
                if not asked:
                    sql(store_dsn, "update ninelives.flow_instance set fence = fence + 1")
                asked.append(await doubt(*arguments))
                return asked[-1]

            monkeypatch.setattr(node.control, "doubt", fenced_first)  # the takeover comes right before it
            await until("it was asked", lambda: asked != [])
            await until("dropped", lambda: node.in_flight == 0, 5.0)
            assert asked == [False]
            assert journal(store_dsn, made) == []

    run(main())


def test_a_body_that_always_raises_fails_after_its_attempts_though_its_effect_is_always_voided(store_dsn: str) -> None:
    async def probe(call: Call) -> Voided:
        return Voided()

    @capability(
        "tests.refused",
        version="1",
        effect=AtMostOnce(reconcile=probe),
        retry=RetryPolicy(attempts_max=3, delay_s=0.01, jitter=0.0),
    )
    async def refused(call: Call, value: Any) -> str:
        raise RuntimeError(f"no, under {call.idempotency_key[-5:]}")

    flow = Flow("tests.refused", version="1").step("refused", refused)

    async def main() -> None:
        async with make_node(store_dsn, [flow]) as node:
            handle = await node.start(flow, None)
            with pytest.raises(InstanceFailed):
                await handle.result(20)
            assert [(row[2], row[3]["message"][-5:]) for row in journal(store_dsn, handle.instance_id)] == [
                (1, f"{str(handle.instance_id)[-2:]}//1"),
                (2, "void1"),
                (3, "void2"),
            ]
            assert [row[3] for row in intents(store_dsn)] == ["voided"] * 3

    run(main())
