"""Batches: a node's own, made and served; other nodes', fetched, checked and learned from."""
