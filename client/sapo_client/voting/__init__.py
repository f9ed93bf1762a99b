"""Verdicts about other nodes' batches, what they cost and what they earn."""
