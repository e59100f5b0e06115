"""How a failed attempt is recorded: in a bounded text that says what went wrong, and by its type when it has none."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import orjson
import pytest

from ninelives import Call, Flow, capability, codec
from ninelives.attempt import Attempt
from ninelives.decide import RunStep
from ninelives.plan import Step
from ninelives.recall import Recall
from ninelives.store.rows import Claimed

ROW_BYTES_MAX = 8192


@capability("tests.body", version="1")
async def body(call: Call, given: Any) -> None:
    pass


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def recorded(error: BaseException) -> tuple[int, dict[str, Any]]:
    """Record a failed attempt; return the bytes of its row and what they say."""
    plan = Flow("tests.attempt", version="1").step("only", body).plan
    (node,) = plan.nodes
    assert isinstance(node, Step)
    claimed = Claimed(
        instance_id=bytes(16), plan_id=1, token=1, seq=0, claims=1, state="Running", input=b"null", frontier=None,
        deadline_in_ms=-1, takeover=False,
    )  # fmt: skip

    async def read(_: object) -> list[tuple[str, int, bytes | None]]:
        return []

    async def failure() -> tuple[int, dict[str, Any]]:
        recall = Recall(plan, claimed, read)
        attempt = Attempt(UUID(int=0), 1, RunStep(node, "", 1, 0, 0), recall, lambda: 0, 1 << 20)
        row, described = attempt.failure(error)
        assert row.result is not None
        assert orjson.loads(row.result) == described
        return len(row.result), described

    return asyncio.run(failure())


def test_of_a_long_text_both_ends_are_kept_and_what_is_cut_is_counted() -> None:
    text = "began " + "x" * 3_000_000 + " and so it ended"
    size, described = recorded(RuntimeError(text))
    assert size < ROW_BYTES_MAX
    assert described["message"].startswith("began xxx")
    assert described["message"].endswith("xxx and so it ended")
    cut = len(text) - codec.ERROR_TEXT_CHARS_MAX
    assert f"xxx ... ({cut} characters cut) ... xxx" in described["message"]


def test_the_bound_holds_for_a_long_text_of_a_cause_too() -> None:
    error = RuntimeError("short")
    error.__cause__ = RuntimeError("y" * 3_000_000)
    size, described = recorded(error)
    assert size < ROW_BYTES_MAX
    assert described["message"] == "short"


@pytest.mark.parametrize("error", [ValueError(), StopAsyncIteration(), asyncio.QueueEmpty()], ids=repr)
def test_an_error_without_a_text_says_so(error: Exception) -> None:
    _, described = recorded(error)
    assert (described["type"], described["message"]) == (
        type(error).__name__,
        f"raised {type(error).__name__} without a text",
    )


def test_a_text_that_fits_is_recorded_as_it_is() -> None:
    text = "z" * codec.ERROR_TEXT_CHARS_MAX
    assert recorded(RuntimeError(text))[1]["message"] == text
    assert "could not be read" in recorded(Unprintable())[1]["message"]
