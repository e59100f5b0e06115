"""How often a failed step is tried again, and after which delay."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from math import isfinite

from .errors import PlanRefused

ATTEMPTS_MAX = 1_000_000
DELAY_S_MAX = 366 * 86_400.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential back-off with a cap and a reproducible jitter.

    `attempts_max` counts the first attempt too (1 = never again). The n-th delay, in seconds, is
    `delay_s * factor**(n-1)`, at most `delay_max_s`, moved by at most `jitter` (0.2 = 20 % either way).
    Raises PlanRefused for values that cannot work.
    """

    attempts_max: int = 3
    delay_s: float = 0.2
    factor: float = 2.0
    delay_max_s: float = 60.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        attempts = self.attempts_max
        if type(attempts) is not int or not 1 <= attempts <= ATTEMPTS_MAX:
            raise PlanRefused("retry policy", f"attempts_max must be in 1..{ATTEMPTS_MAX}, got {attempts!r}")
        for name, value, low, high in (
            ("delay_s", self.delay_s, 0.0, DELAY_S_MAX),
            ("factor", self.factor, 1.0, 1_000.0),
            ("delay_max_s", self.delay_max_s, 0.0, DELAY_S_MAX),
            ("jitter", self.jitter, 0.0, 1.0),
        ):
            if type(value) not in (int, float) or not isfinite(value) or not low <= value <= high:
                raise PlanRefused("retry policy", f"{name} must be in {low:g}..{high:g}, got {value!r}")

    def delay_ms(self, attempt: int, key: str) -> int:
        """Return the delay in milliseconds after the failure number `attempt` (from 1).

        Equal `key` and `attempt` give the equal delay: a resumed step waits no differently.
        """
        if attempt < 1:
            raise ValueError(f"attempt counts from 1, got {attempt}")
        try:
            grown_s = self.delay_s * self.factor ** (attempt - 1)
        except OverflowError:
            grown_s = self.delay_max_s if self.delay_s else 0.0
        capped_s = min(grown_s, self.delay_max_s)
        # Capped again afterwards: jitter must not take a delay past what the author allowed.
        moved_s = min(capped_s * (1.0 + self.jitter * (2.0 * _share(key, attempt) - 1.0)), self.delay_max_s)
        return round(moved_s * 1_000)


def _share(key: str, attempt: int) -> float:
    """Return a number in [0, 1) that depends on nothing but the key and the attempt."""
    digest = blake2b(f"{key}#{attempt}".encode("utf-8", "backslashreplace"), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / (1 << 53)
