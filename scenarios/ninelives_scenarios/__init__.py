"""ninelives_scenarios."""
