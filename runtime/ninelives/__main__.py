"""Entry of the program: `ninelives` and `python -m ninelives`."""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Run the command line and leave with its exit code; see ``ninelives --help``."""
    heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeded:
        # An interrupted import prints a traceback or, worse, is half done. Nothing is open yet: leave at once.
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    try:
        from ninelives.cli import run
    except ImportError as error:
        print(f"error: {error}; install the package again: pip install ninelives", file=sys.stderr)
        sys.exit(1)
    if heeded:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
