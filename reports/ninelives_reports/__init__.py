"""ninelives_reports."""
