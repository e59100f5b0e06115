"""ninelives_rig."""
