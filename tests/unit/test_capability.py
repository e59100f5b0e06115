"""Capabilities, retry policies and captured non-determinism."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from ninelives.capability import AtMostOnce, Capability, Done, Idempotent, Transactional, Voided, capability
from ninelives.capture import Call, Capture
from ninelives.errors import PlanRefused
from ninelives.retry import RetryPolicy

INSTANCE = UUID("01234567-89ab-7fff-bfff-ffffffffffff")
AT_US = 1_700_000_000_123_456


async def body(call: Call, value: Any) -> Any:
    return [call.attempt, value]


async def probe(call: Call) -> Done | Voided:
    return Done({"key": call.idempotency_key})


def make_call(**changed: Any) -> Call:
    facts: dict[str, Any] = {
        "instance_id": INSTANCE, "scope": "", "step_id": 3, "step_name": "pay", "attempt": 1, "token": 7,
        "clock_us": lambda: AT_US,
    }  # fmt: skip
    return Call(**(facts | changed))


def test_capability_carries_what_was_declared() -> None:
    policy = RetryPolicy(attempts_max=1)
    made = capability("a.b-c", version="1.2.0-rc1", effect=Transactional, retry=policy, timeout_s=5)(body)
    assert (made.id, made.version, made.effect.kind) == ("a.b-c", "1.2.0-rc1", "transactional")
    assert (made.retry, made.timeout_s, made.body) == (policy, 5, body)
    assert asyncio.run(_awaited(made)) == [1, "x"]


async def _awaited(made: Capability) -> Any:
    return await made(make_call(), "x")


def test_effect_may_be_a_class_or_an_instance() -> None:
    assert capability("a", version="1")(body).effect == Idempotent()
    assert capability("a", version="1", effect=AtMostOnce)(body).effect == AtMostOnce(None)
    effect = capability("a", version="1", effect=AtMostOnce(reconcile=probe))(body).effect
    assert effect == AtMostOnce(probe)
    assert effect.kind == "at_most_once"


def sync_body(call: Call, value: Any) -> Any:
    return value


async def one_argument(call: Call) -> Any:
    return None


async def generator(call: Call, value: Any) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (sync_body, "async def body"),
        (partial(sync_body), "async def body"),
        (generator, "async def body"),
        (one_argument, "two positional"),
        (None, "async def body"),
        (capability("inner", version="1")(body), "already capability 'inner'"),
    ],
    ids=["sync", "partial", "generator", "one-argument", "none", "twice"],
)
def test_body_that_cannot_run_is_refused_by_name(wrong: Any, message: str) -> None:
    with pytest.raises(PlanRefused, match=f"capability 'pay': .*{message}"):
        capability("pay", version="1")(wrong)


class AsyncObject:
    async def __call__(self, call: Call, value: Any) -> Any:
        return value


def test_async_objects_and_partials_are_bodies() -> None:
    async def with_extra(extra: int, call: Call, value: Any) -> Any:
        return extra

    assert capability("a", version="1")(AsyncObject()).id == "a"
    assert capability("a", version="1")(partial(with_extra, 1)).id == "a"


@pytest.mark.parametrize(
    "declared",
    [
        {"id": ""}, {"id": "a b"}, {"id": "a..b"}, {"id": ".a"}, {"id": "a\n"}, {"id": "x" * 129},
        {"id": "\ud800"}, {"id": "nul\0"}, {"id": None}, {"id": "é"},
        {"version": ""}, {"version": "v1"}, {"version": "1.2.3.4.5"},
        {"version": 1}, {"version": "1\n"}, {"effect": "idempotent"}, {"effect": int}, {"retry": 3},
        {"timeout_s": 0}, {"timeout_s": -1}, {"timeout_s": float("nan")}, {"timeout_s": float("inf")},
        {"timeout_s": "1"}, {"timeout_s": True},
    ],
    ids=repr,
)  # fmt: skip
def test_bad_declaration_is_refused(declared: dict[str, Any]) -> None:
    facts: dict[str, Any] = {"id": "pay", "version": "1"} | declared
    with pytest.raises(PlanRefused, match="capability "):
        capability(facts.pop("id"), **facts)


def test_reconcile_must_be_async() -> None:
    not_async: Any = lambda call: Done()  # noqa: E731
    with pytest.raises(PlanRefused, match="AtMostOnce: reconcile"):
        AtMostOnce(reconcile=not_async)


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts_max": 0}, {"attempts_max": True}, {"attempts_max": 2.0}, {"delay_s": -0.1},
        {"factor": 0.5}, {"delay_s": float("nan")}, {"delay_max_s": float("inf")},
        {"jitter": 1.1}, {"jitter": "0"},
    ],
    ids=repr,
)  # fmt: skip
def test_retry_policy_refuses_what_cannot_work(wrong: dict[str, Any]) -> None:
    with pytest.raises(PlanRefused, match=f"retry policy: {next(iter(wrong))}"):
        RetryPolicy(**wrong)


def test_delays_grow_to_the_cap() -> None:
    policy = RetryPolicy(attempts_max=9, delay_s=0.1, factor=3.0, delay_max_s=1.0, jitter=0.0)
    assert [policy.delay_ms(attempt, "k") for attempt in (1, 2, 3, 4, 999_999)] == [100, 300, 900, 1000, 1000]
    assert RetryPolicy(delay_s=0.0, factor=1_000.0).delay_ms(999_999, "k") == 0
    with pytest.raises(ValueError, match="from 1"):
        policy.delay_ms(0, "k")


def replay_of(capture: Capture, clock: Callable[[], int]) -> Capture:
    def no_bits(count: int) -> int:
        raise AssertionError(f"drew {count} fresh bits on a replay")

    return Capture(capture.dump(), clock, no_bits)


def test_captured_values_repeat_on_a_retry() -> None:
    first = Capture(None, lambda: AT_US)
    seen = (first.now(), [first.new_id() for _ in range(3)], [first.random().random() for _ in range(3)])
    again = replay_of(first, lambda: AT_US + 100 * 86_400 * 10**6)
    assert (
        again.now(),
        [again.new_id() for _ in range(3)],
        [again.random().random() for _ in range(3)],
    ) == seen
    assert seen[0] == datetime(2023, 11, 14, 22, 13, 20, 123_456, tzinfo=UTC)
    assert len(set(seen[1])) == 3
    assert [made.version for made in seen[1]] == [4, 5, 5]


def test_unused_capture_records_nothing_and_zero_is_a_value() -> None:
    assert Capture(None, lambda: AT_US).dump() is None
    assert Capture({"seed": 5}, lambda: AT_US).dump() is None
    zero = Capture(None, lambda: 0, lambda bits: 0)
    zero.now()
    zero.random()
    assert zero.dump() == {"now": 0, "seed": 0}
    assert replay_of(zero, lambda: 1).random().random() == zero_stream()
    assert replay_of(zero, lambda: 1).now() == datetime(1970, 1, 1, tzinfo=UTC)


def zero_stream() -> float:
    capture = Capture(None, lambda: 0, lambda bits: 0)
    return capture.random().random()


def test_retry_that_uses_more_keeps_what_was_recorded() -> None:
    first = Capture(None, lambda: AT_US)
    first.now()
    second = Capture(first.dump(), lambda: AT_US + 1)
    second.random()
    dumped = second.dump()
    assert dumped is not None
    assert dumped["now"] == AT_US
    assert set(dumped) == {"now", "seed"}


def test_key_is_stable_over_attempts_and_new_after_a_void() -> None:
    assert make_call().idempotency_key == f"{INSTANCE}//3"
    assert make_call(attempt=2, token=9).idempotency_key == f"{INSTANCE}//3"
    assert make_call(scope="7/2", voids=1).idempotency_key == f"{INSTANCE}/7/2/3/void1"


def test_call_captures_lazily_and_replays() -> None:
    call = make_call()
    assert call.dump() is None
    seen = (call.now(), call.new_id(), call.random().random())
    again = make_call(attempt=2, recorded=call.dump(), clock_us=lambda: 0)
    assert (again.now(), again.new_id(), again.random().random()) == seen


def test_connection_exists_only_in_a_transactional_step() -> None:
    with pytest.raises(RuntimeError, match=r"step 'pay' is not transactional.*effect=Transactional"):
        _ = make_call().connection
    connection = object()
    assert make_call(connection=connection).connection is connection


def test_call_takes_no_stray_attributes() -> None:
    call: Any = make_call()
    with pytest.raises(AttributeError):
        call.stepid = 1
