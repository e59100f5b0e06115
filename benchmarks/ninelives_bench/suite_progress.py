"""What a run says while it goes on."""

from __future__ import annotations

import sys
import time

_began = time.monotonic()


def say(sentence: str) -> None:
    """Write one line with the seconds since the beginning."""
    print(f"[{time.monotonic() - _began:7.1f} s] {sentence}", file=sys.stderr, flush=True)
