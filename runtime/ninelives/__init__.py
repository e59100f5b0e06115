"""ninelives."""
