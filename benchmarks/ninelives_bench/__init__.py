"""ninelives_bench."""
