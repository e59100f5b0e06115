"""The node's settings: every one validated before anything is opened, and named when it is refused."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite

from ninelives.errors import SettingRefused

_BOUNDS: dict[str, tuple[float, float]] = {
    "ttl_s": (0.2, 86_400.0),
    "in_flight_max": (1, 1_000_000),
    "recovery_in_flight_max": (0, 1_000_000),
    "poll_s": (0.01, 3_600.0),
    "look_s": (0.01, 3_600.0),
    "drain_s": (0.0, 86_400.0),
    "payload_limit_bytes": (64, 1_000_000_000),
    "claims_max": (1, 1_000_000),
    "lanes": (1, 8),
    "transactions_max": (1, 64),
    "connect_timeout_s": (1, 600),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """How a node behaves; the defaults suit a small server.

    ``ttl_s``: after how many seconds without a heartbeat a node counts as dead; a latency setting, never a safety
    one (a killed process is seen within milliseconds). It is renewed at a third. ``in_flight_max`` instances at once,
    and up to ``recovery_in_flight_max`` more that were taken over from dead nodes. ``poll_s``: the look for due
    work that needs no notification. ``look_s``: the look over all sessions behind the watch on the neighbour.
    ``drain_s``: the budget of an orderly stop. ``payload_limit_bytes``: inputs, results and signals.
    ``claims_max``: an instance claimed so often without one commit is failed as poison. ``lanes``: connections that
    carry commits. ``transactions_max``: connections for transactional steps. ``connect_timeout_s``: for one connection.
    """

    ttl_s: float = 30.0
    in_flight_max: int = 256
    recovery_in_flight_max: int = 4096
    poll_s: float = 1.0
    look_s: float = 0.25
    drain_s: float = 20.0
    payload_limit_bytes: int = 1_048_576
    claims_max: int = 10
    lanes: int = 2
    transactions_max: int = 8
    connect_timeout_s: int = 10

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            low, high = _BOUNDS[field.name]
            if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
                raise SettingRefused(field.name, f"is {value!r}; give a number from {low:g} to {high:g}")
            if isinstance(low, int) and not isinstance(value, int):
                raise SettingRefused(field.name, f"is {value!r}; give a whole number from {low:g} to {high:g}")
            if not low <= value <= high:
                raise SettingRefused(field.name, f"is {value!r}; give a number from {low:g} to {high:g}")

    @property
    def renew_s(self) -> float:
        """Seconds between heartbeats: two may be missed."""
        return self.ttl_s / 3

    @property
    def suspicious_claims(self) -> int:
        """From how many claims without a commit on an instance is taken alone."""
        return max(1, self.claims_max * 2 // 3)

    @property
    def ttl_ms(self) -> int:
        """The TTL in milliseconds, as the store takes it."""
        return round(self.ttl_s * 1000)
