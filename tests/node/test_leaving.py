"""What a node says of the steps that it leaves behind is what happened to them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests.node.flows import GATED
from tests.node.helpers import instance, make_node, run, until

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize(
    ("drain_s", "told"),
    [(0.0, "1 steps did not end within the drain budget of 0.0 s"), (3600.0, "1 steps were interrupted")],
    ids=["its time is over", "interrupted"],
)
def test_a_drain_tells_a_budget_that_is_used_up_from_an_interruption(
    store_dsn: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, drain_s: float, told: str
) -> None:
    """asyncio.run cancels every task when something like Ctrl-C ends it: no budget has passed by then."""
    given = {"log": str(tmp_path / "log"), "gate": str(tmp_path / "gate")}
    caplog.set_level(logging.WARNING)

    async def main() -> None:
        async with make_node(store_dsn, [GATED], drain_s=drain_s) as node:
            handle = await node.start(GATED, given)
            await until("its step is at work", (tmp_path / "gate.reached").exists)
            if drain_s:
                for task in node._tasks:
                    node._loop.call_soon(task.cancel)
            await node.drain()
        row = instance(store_dsn, handle.instance_id)
        assert (row["holder"], row["scheduled"]) == (None, True)

    run(main())
    (line,) = [record.getMessage() for record in caplog.records if record.name == "ninelives.node"]
    assert line.startswith(told)


def test_a_drain_without_anything_left_says_nothing(store_dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with make_node(store_dsn, [GATED]):
            pass

    caplog.set_level(logging.WARNING)
    run(main())
    assert caplog.records == []
