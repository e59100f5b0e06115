"""What the rig says when it is asked for something that cannot be run."""

from __future__ import annotations


class Refused(ValueError):
    """What was asked for cannot be run; the text says why and what to ask for instead."""
