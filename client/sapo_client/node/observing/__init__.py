"""Looking at a node without being in its way: its condition, metrics, alerts, and pages of curves."""
