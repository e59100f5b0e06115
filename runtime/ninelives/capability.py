"""Capabilities: named, versioned bodies, each with the guarantee that its effect needs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any, ClassVar

from .capture import Call
from .errors import PlanRefused
from .retry import RetryPolicy

TIMEOUT_S_MAX = 366 * 86_400.0
_ID = re.compile(r"[A-Za-z0-9_]+(?:[.-][A-Za-z0-9_]+)*\Z")
_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+){0,3}(?:[-+][0-9A-Za-z.-]+)?\Z")
_NAME_CHARS_MAX = 128

Body = Callable[[Call, Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Done:
    """A reconcile probe's answer: the effect happened; `result` becomes the step's result."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class Voided:
    """A reconcile probe's answer: the outside system now refuses this key for ever; a new attempt is safe."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A reconcile probe's answer: nobody can say. "Not seen yet" is this one: the request may still land."""


Reconcile = Callable[[Call], Awaitable[Done | Voided | Unknown]]


@dataclass(frozen=True, slots=True)
class Idempotent:
    """At least once, with a key that stays the same over attempts and resumes. The default."""

    kind: ClassVar[str] = "idempotent"


@dataclass(frozen=True, slots=True)
class AtMostOnce:
    """At most once: an intent is committed before the body runs.

    A resumed instance that finds an intent without an outcome asks `reconcile` (an async function of the
    call, answering Done, Voided or Unknown) and never runs the body blindly; without a probe it waits for
    an operator.
    """

    reconcile: Reconcile | None = None
    kind: ClassVar[str] = "at_most_once"

    def __post_init__(self) -> None:
        if self.reconcile is not None and not _is_async(self.reconcile):
            raise PlanRefused("AtMostOnce", "reconcile must be an `async def` function that takes the call")


@dataclass(frozen=True, slots=True)
class Transactional:
    """With the commit or not at all: its SQL on `call.connection` shares the step row's transaction."""

    kind: ClassVar[str] = "transactional"


Effect = Idempotent | AtMostOnce | Transactional


@dataclass(frozen=True, slots=True, eq=False)
class Capability:
    """A body that flows can name: id, version, effect, retry policy, time-out (seconds or None), function.

    Calling it calls the body, which is what a test of the body wants.
    """

    id: str
    version: str
    effect: Effect
    retry: RetryPolicy
    timeout_s: float | None
    body: Body

    def __call__(self, call: Call, value: Any) -> Awaitable[Any]:
        return self.body(call, value)

    def __repr__(self) -> str:
        return f"<capability {self.id} {self.version} ({self.effect.kind})>"


def capability(
    id: str,
    *,
    version: str,
    effect: Effect | type[Idempotent] | type[AtMostOnce] | type[Transactional] = Idempotent,
    retry: RetryPolicy | None = None,
    timeout_s: float | None = None,
) -> Callable[[Body], Capability]:
    """Decorate `async def body(call, value)` as a capability.

    `effect` is Idempotent, AtMostOnce(...) or Transactional, as a class or an instance; `timeout_s` bounds
    one attempt in seconds. Raises PlanRefused, naming the capability, for a sync body and for a bad id,
    version, effect, retry policy or time-out.
    """
    place = f"capability {id!r}"
    check_id(place, "id", id)
    check_version(place, version)
    settled = _settle_effect(place, effect)
    policy = RetryPolicy() if retry is None else retry
    if not isinstance(policy, RetryPolicy):
        raise PlanRefused(place, f"retry must be a RetryPolicy, got {type(policy).__name__}")
    check_timeout(place, "timeout_s", timeout_s)

    def decorate(body: Body) -> Capability:
        _check_body(place, body)
        return Capability(id, version, settled, policy, timeout_s, body)

    return decorate


def check_id(place: str, what: str, text: object) -> None:
    """Refuse an id that is not made of letters, digits and `_`, joined by `.` or `-`."""
    if not isinstance(text, str) or len(text) > _NAME_CHARS_MAX or not _ID.match(text):
        raise PlanRefused(
            place,
            f"{what} must be 1 to {_NAME_CHARS_MAX} of A-Z a-z 0-9 _ joined by . or -, got {text!r}",
        )


def check_version(place: str, version: object) -> None:
    """Refuse a version that does not read like `1`, `1.2` or `1.2.0-rc1`."""
    if not isinstance(version, str) or len(version) > _NAME_CHARS_MAX or not _VERSION.match(version):
        raise PlanRefused(place, f"version must read like '1.2.0' or '1.2.0-rc1', got {version!r}")


def check_timeout(place: str, what: str, timeout_s: object) -> None:
    """Refuse a time-out in seconds that is not None and not a positive finite number up to a year."""
    if timeout_s is None:
        return
    if type(timeout_s) not in (int, float):
        raise PlanRefused(place, f"{what} must be a number of seconds or None, got {timeout_s!r}")
    assert isinstance(timeout_s, (int, float))
    if not isfinite(timeout_s) or not 0 < timeout_s <= TIMEOUT_S_MAX:
        raise PlanRefused(place, f"{what} must be above 0 and at most {TIMEOUT_S_MAX:g} s, got {timeout_s!r}")


def _settle_effect(place: str, effect: object) -> Effect:
    if isinstance(effect, type) and issubclass(effect, (Idempotent, AtMostOnce, Transactional)):
        return effect()
    if isinstance(effect, (Idempotent, AtMostOnce, Transactional)):
        return effect
    raise PlanRefused(place, f"effect must be Idempotent, AtMostOnce(...) or Transactional, got {effect!r}")


def _is_async(function: object) -> bool:
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - asks for an async __call__, not for callability
    )


def _check_body(place: str, body: object) -> None:
    if isinstance(body, Capability):
        raise PlanRefused(place, f"its body is already capability {body.id!r}; decorate the plain function")
    if not callable(body) or not _is_async(body):
        raise PlanRefused(
            place,
            "its body must be `async def body(call, value)`; a sync function would stall every other flow "
            "of the node (wrap blocking work in asyncio.to_thread)",
        )
    try:
        inspect.signature(body).bind(None, None)
    except TypeError:
        raise PlanRefused(place, "its body must take two positional arguments: (call, value)") from None
