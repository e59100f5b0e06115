"""Nodes that have nothing to do leave no error in the server's log."""

from __future__ import annotations

import pytest
from tests.node.helpers import make_node, run, until

from ninelives.watch import Watch
from ninelives_rig.cluster.server import PostgresServer

pytestmark = pytest.mark.postgres


def test_waiting_for_the_neighbour_writes_no_error(
    store_dsn: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = []
    wait_round = Watch._wait_round

    def counted(watch: Watch, connection: object) -> None:
        wait_round(watch, connection)  # type: ignore[arg-type]
        rounds.append(watch)

    monkeypatch.setattr(Watch, "_wait_round", counted)

    async def main() -> None:
        async with make_node(store_dsn) as one, make_node(store_dsn) as two:
            await until("each knows its neighbour", lambda: bool(one._watch._awaited and two._watch._awaited))  # type: ignore[union-attr]
            before, begun = postgres_server.log.stat().st_size, len(rounds)
            await until("both have waited twice", lambda: len(rounds) >= begun + 4)
            with postgres_server.log.open() as log:
                log.seek(before)
                said = log.read()
            assert [line for line in said.splitlines() if "ERROR" in line or "FATAL" in line] == []

    run(main())
