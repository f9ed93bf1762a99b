"""Rounds at the level of batches and verdicts, by the contract's rules: what docs/economics.md is computed with."""
