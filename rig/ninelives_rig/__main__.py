"""Entry of the program. It imports next to nothing, because every forked node imports this module too."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from ninelives_rig.commands import app
    except ImportError as error:
        # Python's own exit code for an error is 1, which here means that the engine failed.
        print(f"error: {error}; install the rig with: pip install 'ninelives[rig]'", file=sys.stderr)
        sys.exit(3)
    app()


if __name__ == "__main__":
    main()
