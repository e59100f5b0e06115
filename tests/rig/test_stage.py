"""The coordinator's own starts: they go on until all are acknowledged, but not for ever when none is."""

from __future__ import annotations

import asyncio
import io
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from ninelives_rig import stage
from ninelives_rig.nodes import NodesBroken
from ninelives_rig.progress import Display
from ninelives_rig.recorder import Recorder


class Refusing:
    """A starter whose server takes so many starts and then refuses all."""

    def __init__(self, takes: int) -> None:
        self.left = takes

    async def start(self, index: int, instance_id: UUID) -> object:
        self.left -= 1
        if self.left < 0:
            raise ConnectionError("too many clients already")
        return object()


def stage_of(tmp_path: Path, takes: int, said: io.StringIO) -> Any:
    @asynccontextmanager
    async def client(*_: object) -> AsyncIterator[Refusing]:
        yield Refusing(takes)

    engine = SimpleNamespace(client=client, is_refusal=lambda error: False)
    return SimpleNamespace(
        work=tmp_path,
        instances=[SimpleNamespace(instance_id=UUID(int=index)) for index in range(9)],
        store=None,
        arm=SimpleNamespace(ttl_s=0.01, workload=None, version="1.0.0"),
        recorder=Recorder(tmp_path, "coordinator"),
        rig=SimpleNamespace(engine=engine, display=Display(plain=True, stream=said)),
    )


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "_START_PATIENCE_S", 0.0, raising=False)
    monkeypatch.setattr(stage, "_START_LOOK_S", 0.01, raising=False)
    # Only so that a failure ends.
    signal.alarm(20)


@pytest.mark.parametrize("takes", [0, 4])
def test_starts_that_are_never_acknowledged_end_the_run_and_say_why(tmp_path: Path, takes: int) -> None:
    said = io.StringIO()
    with pytest.raises(NodesBroken, match=f"{takes} of 9 flows .*too many clients already"):
        asyncio.run(stage._start_all(stage_of(tmp_path, takes, said), list(range(9))))
    signal.alarm(0)
    assert "of the coordinator started" in said.getvalue()


def test_starts_that_are_acknowledged_end_at_once(tmp_path: Path) -> None:
    asyncio.run(stage._start_all(stage_of(tmp_path, 9, io.StringIO()), list(range(9))))
    signal.alarm(0)
    assert (tmp_path / "coordinator.marks").stat().st_size == 9 * 4
