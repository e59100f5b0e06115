"""Starts: none is forgotten, whatever process is killed; each slot keeps its flows in flight."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from uuid import UUID

from ninelives_rig.engines.base import Running
from ninelives_rig.recorder import Recorder
from ninelives_rig.starts import StartList, keep_in_flight, marked_indexes


class Place:
    """A starter that lets the test say when a flow ends, and that can fail the first try of some."""

    def __init__(self, failing: frozenset[int] = frozenset()) -> None:
        self.ends: dict[int, asyncio.Event] = {}
        self.tries: list[int] = []
        self._failing = set(failing)

    async def start(self, index: int, instance_id: UUID) -> Running:
        """Acknowledge the start, or fail it once."""
        self.tries.append(index)
        if index in self._failing:
            self._failing.remove(index)
            raise ConnectionError("the answer was lost")
        self.ends[index] = asyncio.Event()
        return Flow(self.ends[index])


class Flow:
    """A started flow."""

    def __init__(self, end: asyncio.Event) -> None:
        self._end = end

    async def finished(self) -> None:
        """Wait for the test to end it."""
        await self._end.wait()


def owed(path: Path, count: int, serial: bool = False) -> StartList:
    """Open a slot's list of starts 0 to count - 1."""
    return StartList(path, range(count), lambda index: UUID(int=index), serial)


async def settle() -> None:
    """Let everything that is ready run."""
    for _ in range(50):
        await asyncio.sleep(0)


def history(tmp_path: Path) -> list[tuple[str, int]]:
    """Read the recorded start events as (event, index)."""
    lines = (tmp_path / "w.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    return [(event["event"], UUID(event["instance_id"]).int) for event in events]


def test_so_many_are_kept_in_flight_and_the_next_follows_an_end(tmp_path: Path) -> None:
    async def play() -> None:
        place, stopping = Place(), asyncio.Event()
        starts = owed(tmp_path / "marks", 10)
        work = asyncio.create_task(keep_in_flight(place, starts, 3, Recorder(tmp_path, "w"), stopping))
        await settle()
        assert place.tries == [0, 1, 2]
        place.ends[1].set()
        await settle()
        assert place.tries == [0, 1, 2, 3]
        stopping.set()
        await work

    asyncio.run(play())


def test_the_next_process_repeats_exactly_what_was_not_acknowledged(tmp_path: Path) -> None:
    async def play() -> None:
        place, stopping = Place(), asyncio.Event()
        work = asyncio.create_task(
            keep_in_flight(place, owed(tmp_path / "marks", 6), 2, Recorder(tmp_path, "w"), stopping)
        )
        await settle()
        place.ends[0].set()
        await settle()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    asyncio.run(play())
    assert marked_indexes(tmp_path / "marks") == [0, 1, 2]
    assert [index for index, _ in owed(tmp_path / "marks", 6).take()] == [3, 4, 5]


def test_a_serial_slot_waits_for_the_one_that_was_under_way(tmp_path: Path) -> None:
    async def play() -> None:
        place, stopping = Place(), asyncio.Event()
        starts = owed(tmp_path / "marks", 3, serial=True)
        work = asyncio.create_task(keep_in_flight(place, starts, 1, Recorder(tmp_path, "w"), stopping))
        await settle()
        place.ends[0].set()
        await settle()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    asyncio.run(play())
    assert [index for index, _ in owed(tmp_path / "marks", 3, serial=True).take()] == [1, 2]


def test_a_start_whose_answer_was_lost_is_repeated_and_recorded_as_unknown(tmp_path: Path) -> None:
    async def play() -> None:
        place = Place(failing=frozenset({0}))
        await keep_in_flight(
            place,
            owed(tmp_path / "marks", 1),
            1,
            Recorder(tmp_path, "w"),
            asyncio.Event(),
            wait_for_end=False,
        )
        assert place.tries == [0, 0]

    asyncio.run(play())
    assert history(tmp_path) == [("start.invoke", 0), ("start.info", 0), ("start.invoke", 0), ("start.ok", 0)]


def test_a_torn_last_mark_counts_as_none(tmp_path: Path) -> None:
    starts = owed(tmp_path / "marks", 3)
    starts.mark(2)
    starts.close()
    with (tmp_path / "marks").open("ab") as file:
        file.write(b"\x00\x00")
    assert marked_indexes(tmp_path / "marks") == [2]
