"""Steps that select results from before the last snapshot get them from the journal, whatever their selector does."""

from __future__ import annotations

from typing import Any

import pytest
from tests.node.helpers import instance, make_node, run, until_state

from ninelives import AtMostOnce, Call, Flow, State, Transactional, capability, connect
from ninelives.recall import SNAPSHOT_ROWS

pytestmark = pytest.mark.postgres

BEFORE = SNAPSHOT_ROWS + 4


@capability("tests.number", version="1")
async def number(call: Call, given: Any) -> dict[str, int]:
    return {"number": call.step_id}


@capability("tests.echo_once", version="1", effect=AtMostOnce())
async def echo_once(call: Call, given: Any) -> Any:
    return given


@capability("tests.echo_row", version="1", effect=Transactional())
async def echo_row(call: Call, given: Any) -> Any:
    return given


def selected(state: State) -> list[Any]:
    try:
        first = state["s1"]["number"]
    except Exception:  # what a careless selector does must not hide that a result has yet to be read
        first = None
    return [first, state["s2"]["number"], state[f"s{BEFORE}"]["number"]]


def long_flow(name: str, last: Any) -> Flow:
    flow = Flow(name, version="1")
    for place in range(1, BEFORE + 1):
        flow = flow.step(f"s{place}", number)
    return flow.await_signal("go").step("last", last, input=selected)


FLOWS = [
    long_flow("tests.older_once", echo_once),
    long_flow("tests.older_row", echo_row),
    long_flow("tests.older_plain", capability("tests.echo", version="1")(echo_row.body)),
]


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.plan.flow_id)
def test_a_step_selects_results_that_another_node_has_committed_long_ago(store_dsn: str, flow: Flow) -> None:
    async def main() -> None:
        async with connect(store_dsn) as client:
            async with make_node(store_dsn, FLOWS):
                handle = await client.start(flow)
                await until_state(store_dsn, handle.instance_id, "Suspended")
            async with make_node(store_dsn, FLOWS):
                await client.signal(handle.instance_id, "go")
                assert await handle.result(30) == [1, 2, BEFORE]
            assert instance(store_dsn, handle.instance_id)["state"] == "Completed"

    run(main())
