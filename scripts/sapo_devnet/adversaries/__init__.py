"""Hostile nodes, built on the client's own parts: each does one thing of a round otherwise. Not installed."""
