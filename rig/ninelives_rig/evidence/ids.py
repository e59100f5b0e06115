"""The ids of a run's instances, computed again for the judge: they follow from seed, arm and index alone."""

from __future__ import annotations

import hashlib
from uuid import UUID


def expected_id(seed: int, arm: str, index: int) -> str:
    """Return the id that the run must have given to an arm's instance of this index."""
    series = int.from_bytes(hashlib.sha256(f"{seed}/{arm}".encode()).digest()[:3])
    tail = int.from_bytes(hashlib.sha256(f"{seed}/{arm}/{index}".encode()).digest()[:10])
    value = ((series & 0xFFFFFF) << 24 | index & 0xFFFFFF) << 80 | tail
    value = value & ~(0xF << 76) | 0x7 << 76
    return str(UUID(int=value & ~(0x3 << 62) | 0x2 << 62))
