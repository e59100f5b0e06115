"""Entry of the program. It imports next to nothing, because every forked node imports this module too."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from ninelives_rig.commands import app

    app()


if __name__ == "__main__":
    main()
