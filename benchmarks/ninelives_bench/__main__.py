"""Entry of the program. It imports next to nothing, because every spawned node imports this module too."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from ninelives_bench.suite_commands import app
    except ImportError as error:
        # Python's own exit code for an error is 1, which here means that a limit was broken.
        print(f"error: {error}; install the benchmarks with: pip install 'ninelives[bench]'", file=sys.stderr)
        sys.exit(3)
    app()


if __name__ == "__main__":
    main()
