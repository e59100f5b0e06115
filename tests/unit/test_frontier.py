"""The frontier answers the same after every kind of restart, for every shape of plan."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from ninelives.errors import PayloadRefused
from ninelives.frontier import Frontier, IntentRow, OpenRow, StepRow, Unread

INPUT = {"customer": "c-1"}


def success(scope: str, step_id: int, result: Any = None, attempt: int = 1) -> StepRow:
    return StepRow(scope, step_id, attempt, 0, "Success", result)


def failure(scope: str, step_id: int, attempt: int, retry_in_ms: int | None = None, **facts: Any) -> StepRow:
    return StepRow(scope, step_id, attempt, 0, "Failure", {"message": f"try {attempt}"}, facts or None, retry_in_ms)


def undone(scope: str, step_id: int, attempt: int) -> StepRow:
    return StepRow(scope, step_id, attempt, 0, "Compensated")


Row = StepRow | IntentRow | OpenRow

# What the journal holds for each shape, in commit order: [7] is the container's step id.
SHAPES: dict[str, list[Row]] = {
    "sequence": [success("", step_id, {"n": step_id}) for step_id in range(1, 8)],
    "retries": [
        success("", 1),
        failure("", 2, 1, 100, now=5),
        failure("", 2, 2, 200, seed=0),
        success("", 2, "third", attempt=3),
        failure("", 3, 1, 100),
    ],
    "intents": [
        IntentRow("", 1, 1, 7, "voided"),
        IntentRow("", 1, 2, 8, "committed"),
        failure("", 1, 2, 50),
        IntentRow("", 1, 3, 9),
        IntentRow("", 2, 1, 9),
    ],
    "branches": [
        success("7/1", 8, "a"),
        success("7/2", 11, "x"),
        failure("7/2", 12, 1, 10),
        success("7/1", 9, "b"),
        success("7/2", 12, "y", attempt=2),
        success("", 7, ["b", "y"]),
    ],
    "for_each": [
        *(success(f"7/{index}", 8, index) for index in (3, 1, 2, 5, 4)),
        *(success(f"7/{index}", 9, -index) for index in (2, 1, 5, 3)),
    ],
    "loop": [success(f"7#{index}", step_id, [index, step_id]) for index in range(1, 5) for step_id in (8, 9, 10)],
    "nested": [
        success("7/2/9#1", 10, 1),
        success("7/2/9#1/11/1", 12, 1),
        success("7/2/9#1/11/2", 12, 2),
        success("7/2/9#1", 11),
        success("7/2/9#2/11/1", 12, 3),
        failure("7/2/9#2/11/2", 12, 1),
        success("7/1", 8),
    ],
    "waits": [
        OpenRow("7/1", 8, "wait", {"signal": "approved", "due_us": 5}),
        OpenRow("", 2, "wait", {"due_us": 9}),
        success("7/1", 8, {"by": "ann"}),
    ],
    "children": [
        OpenRow("", 3, "child", {"instance_id": "c1", "attempt": 1}),
        OpenRow("7#2", 9, "child", {"instance_id": "c2"}),
        success("", 3, "child's result"),
    ],
    "undo": [
        success("", 1, "r1"),
        failure("", 2, 1),
        success("", 2, "r2", attempt=2),
        failure("", 3, 1),
        failure("", 2, 3, 40),
        IntentRow("", 2, 4, 5),
        undone("", 2, 4),
        failure("", 1, 2),
    ],
}  # fmt: skip

ASKED = [(scope, step_id) for scope in ("", "7/1", "7/2", "7/3", "7/4", "7/5", "7#1", "7#2", "7#3", "7#4", "7/2/9#1",
         "7/2/9#2", "7/2/9#1/11/1", "7/2/9#2/11/1", "7/2/9#2/11/2") for step_id in range(1, 13)]  # fmt: skip


def feed(frontier: Frontier, rows: list[Row]) -> Frontier:
    for row in rows:
        if isinstance(row, StepRow):
            frontier.apply(row)
        elif isinstance(row, IntentRow):
            frontier.apply_intent(row)
        else:
            frontier.apply_open(row)
    return frontier


def read(frontier: Frontier, key: tuple[str, int], rows: list[Row]) -> Any:
    """A result, read from its row where the snapshot has covered it."""
    try:
        return frontier.result(*key)
    except Unread as unread:
        (row,) = [r for r in rows if isinstance(r, StepRow) and (r.scope, r.step_id) == key and r.outcome == "Success"]
        frontier.remember(*unread.key, row.result)
        return frontier.result(*key)


def answers(frontier: Frontier, rows: list[Row]) -> list[Any]:
    """Everything a decider can see, apart from delays, which a snapshot leaves out."""
    seen: list[Any] = [frontier.done_to]
    for key in ASKED:
        try:
            result = [read(frontier, key, rows)]
        except KeyError:
            result = []
        opened = frontier.open(*key)
        trouble = [
            None if found is None else [found.attempt, found.error, repr(found.open_intent)]
            for found in (frontier.trouble(*key), frontier.trouble(*key, undo=True))
        ]
        seen.append(
            [key, frontier.is_done(*key), frontier.is_undone(*key), result, trouble, frontier.attempt(*key),
             frontier.failures(*key), frontier.voids(*key), frontier.captured(*key),
             None if opened is None else [opened.kind, opened.facts]]
        )  # fmt: skip
    return seen


@pytest.mark.parametrize("shape", SHAPES)
def test_snapshot_at_any_point_answers_as_the_rows_do(shape: str) -> None:
    rows = SHAPES[shape]
    straight = answers(feed(Frontier(INPUT), rows), rows)
    assert straight != answers(Frontier(INPUT), rows)
    for cut in range(len(rows) + 1):
        stored = feed(Frontier(INPUT), rows[:cut]).snapshot()
        resumed = Frontier.restore(INPUT, stored)
        assert answers(resumed, rows) == answers(feed(Frontier(INPUT), rows[:cut]), rows)
        assert resumed.snapshot() == stored
        # Reading rows again that the snapshot covers already must change nothing.
        for overlap in (0, 1, cut):
            again = feed(Frontier.restore(INPUT, stored), rows[cut - min(overlap, cut) :])
            assert answers(again, rows) == straight, (shape, cut, overlap)
    assert answers(feed(feed(Frontier(INPUT), rows), rows), rows) == straight


def test_finished_iterations_are_one_entry_however_many() -> None:
    small, large = Frontier(None), Frontier(None)
    for frontier, iterations in ((small, 10), (large, 20_000)):
        for index in range(1, iterations + 1):
            frontier.apply(success(f"7#{index}", 8, {"index": index}))
            frontier.apply(failure(f"7#{index}", 9, 1))
            frontier.apply(success(f"7#{index}", 9, "x", attempt=2))
            frontier.apply(success(f"7#{index}/9/2", 10))
    # Longer only by the digits of the latest index, which stands there seven times.
    assert len(large.snapshot()) <= len(small.snapshot()) + 7 * 3
    assert large.result("7#20000", 8) == {"index": 20_000}
    with pytest.raises(KeyError):
        large.result("7#19999", 8)
    assert large.is_done("7#19999", 8)
    assert large.is_done("7#3/9/2", 10)
    assert not large.is_done("7#20001", 8)


def test_elements_and_sequences_are_ranges() -> None:
    frontier = Frontier(None)
    for index in range(1, 501):
        frontier.apply(success(f"7/{index}", 8, index))
        frontier.apply(success("", index, None))
    stored = frontier.snapshot()
    assert orjson.loads(stored) == {"v": 1, "d": [[1, 500], [["7/", [[[8, 8], [1, 500]]]]]]}


def test_late_row_of_an_older_iteration_changes_nothing() -> None:
    frontier = feed(Frontier(None), [success("7#1", 8, "old"), success("7#2", 8, "new")])
    before = answers(frontier, [])
    feed(frontier, [success("7#1", 9, "late"), failure("7#1", 10, 1), IntentRow("7#1", 8, 2, 5), undone("7#1", 8, 2)])
    feed(frontier, [OpenRow("7#1", 11, "wait", {})])
    assert answers(frontier, []) == before


def test_delay_is_told_by_the_row_and_not_by_the_snapshot() -> None:
    row = failure("", 1, 1, retry_in_ms=900)
    frontier = feed(Frontier(None), [row])
    trouble = frontier.trouble("", 1)
    assert trouble is not None
    assert trouble.retry_in_ms == 900
    resumed = Frontier.restore(None, frontier.snapshot())
    found = resumed.trouble("", 1)
    assert found is not None
    assert found.retry_in_ms is None
    # Read again, what is left of the delay is known, and the failure is not counted twice.
    resumed.apply(failure("", 1, 1, retry_in_ms=300))
    assert resumed.failures("", 1) == 1
    again = resumed.trouble("", 1)
    assert again is not None
    assert again.retry_in_ms == 300


def test_retries_merge_what_they_captured() -> None:
    frontier = feed(Frontier(None), SHAPES["retries"][:3])
    assert frontier.captured("", 2) == {"now": 5, "seed": 0}
    assert frontier.captured("", 1) is None
    assert (frontier.failures("", 2), frontier.voids("", 2)) == (2, 0)


def test_unknown_outcome_is_an_error() -> None:
    with pytest.raises(ValueError, match="must be Success, Failure or Compensated"):
        Frontier(None).apply(StepRow("", 1, 1, 1, "success"))


@pytest.mark.parametrize(
    "stored",
    [b"", b"{", b"[]", b"null", b'{"v":2,"d":[[]]}', b'{"d":[[]]}', b'{"v":1,"d":[[2,1]]}', b'{"v":1,"d":[[0,1]]}',
     b'{"v":1,"d":[[1,2,3,4]]}', b'{"v":1,"d":[[1]]}', b'{"v":1,"d":[["1","2"]]}', b'{"v":1,"d":[[],[["7",[]]]]}',
     b'{"v":1,"d":[[]],"t":[[1]]}'],
    ids=repr,
)  # fmt: skip
def test_damaged_frontier_is_a_typed_refusal(stored: bytes) -> None:
    with pytest.raises(PayloadRefused, match=r"frontier: \$: not a snapshot of this release"):
        Frontier.restore(None, stored)


def test_a_result_from_before_the_snapshot_is_told_apart_from_one_that_is_not_there() -> None:
    frontier = feed(Frontier(None), [success("", 1, "a"), success("", 2, "b")])
    resumed = Frontier.restore(None, frontier.snapshot())
    resumed.apply(success("", 3, "c"))
    with pytest.raises(Unread) as unread:
        resumed.result("", 1)
    assert unread.value.key == ("", 1)
    with pytest.raises(KeyError):
        resumed.result("", 4)
    resumed.remember("", 1, b'"a"')
    resumed.remember("", 3, b'"older"')
    assert [resumed.result("", step_id) for step_id in (1, 3)] == ["a", "c"]
    assert orjson.loads(resumed.snapshot()) == {"v": 1, "d": [[1, 3]]}


def test_a_result_of_an_iteration_that_is_over_is_gone_for_good() -> None:
    frontier = feed(Frontier(None), [success("7#1", 8, "old"), success("7#2", 8, "new")])
    resumed = Frontier.restore(None, frontier.snapshot())
    with pytest.raises(KeyError):
        resumed.result("7#1", 8)
    with pytest.raises(Unread):
        resumed.result("7#2", 8)


def test_unread_is_not_caught_by_a_selector_that_catches_everything() -> None:
    assert not issubclass(Unread, Exception)
