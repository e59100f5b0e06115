"""Instance ids: time-ordered ones for new instances, derived ones for business keys."""

from __future__ import annotations

import os
import time
from uuid import UUID, uuid5

RAND_BITS = 74
_RAND_B_MASK = (1 << 62) - 1
_NAMESPACE = UUID("5a0b9f6e-3d0c-5b1e-9c3a-9f1e6d2c7b40")


def uuid7(ms: int, rand_bits: int) -> UUID:
    """Build a version 7 UUID.

    `ms` is milliseconds since 1970 (48 bits), `rand_bits` 74 random bits. Raises ValueError beyond them.
    """
    if not 0 <= ms < 1 << 48:
        raise ValueError(f"ms must be in [0, 2**48), got {ms}")
    if not 0 <= rand_bits < 1 << RAND_BITS:
        raise ValueError(f"rand_bits must be in [0, 2**{RAND_BITS}), got {rand_bits}")
    return UUID(int=ms << 80 | 0x7 << 76 | (rand_bits >> 62) << 64 | 0b10 << 62 | (rand_bits & _RAND_B_MASK))


def new_instance_id() -> UUID:
    """Return a fresh time-ordered id.

    Reads this machine's clock, which nothing else here does: the time is only a hint that keeps
    neighbours together in an index, and a wrong clock costs locality, never correctness.
    """
    return uuid7(time.time_ns() // 1_000_000 & (1 << 48) - 1, int.from_bytes(os.urandom(10), "big") >> 6)


def instance_id_for(text: str) -> UUID:
    """Derive an instance id from a business key: equal text gives the equal id, on every machine and release.

    Raises ValueError for an empty text and for one that is not valid Unicode (a lone surrogate).
    """
    if not text:
        raise ValueError("an instance id cannot be derived from an empty text; pass the business key")
    return uuid5(_NAMESPACE, text)
