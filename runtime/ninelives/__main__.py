"""Entry of the program: `ninelives` and `python -m ninelives`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and leave with its exit code; see ``ninelives --help``."""
    try:
        from ninelives.cli import run
    except ImportError as error:
        print(f"error: {error}; install the package again: pip install ninelives", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
