"""A node that is declared dead while it opens, as after a freeze, begins once more under another session."""

from __future__ import annotations

from typing import Any

import pytest
from tests.node.flows import GATED
from tests.node.helpers import make_node, run, sql, until

from ninelives import Node, StoreUnavailable
from ninelives.wire import Wire

pytestmark = pytest.mark.postgres


def fail_first(monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """Let the first connections of nodes be ended by an administrator's command."""
    sessions: list[int] = []
    open_wire = Node._wire

    async def ended(node: Node, *names: Any, **listen: Any) -> Wire:
        sessions.append(node.session_id)
        if len(sessions) <= times:
            raise StoreUnavailable("terminating connection due to administrator command")
        return await open_wire(node, *names, **listen)

    monkeypatch.setattr(Node, "_wire", ended)
    return sessions


def test_one_lost_connection_does_not_end_the_opening(
    store_dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    async def main() -> None:
        sessions = fail_first(monkeypatch, 1)
        async with make_node(store_dsn) as node:
            assert node.session_id != sessions[0]
            handle = await node.start(GATED, {"log": str(tmp_path / "log")})
            await handle.result(20)
        alive = "select count(*) from ninelives.node_session where dead_at is null"
        await until("both sessions have said goodbye", lambda: sql(store_dsn, alive) == [(0,)])

    run(main())


def test_a_server_that_stays_away_is_told(store_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        sessions = fail_first(monkeypatch, 1_000)
        with pytest.raises(StoreUnavailable, match="administrator command"):
            await make_node(store_dsn).open()
        assert len(set(sessions)) == 2

    run(main())
