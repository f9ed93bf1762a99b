"""`scripts/chaos`: a devnet behind providers that fail in every way, one fault a round, and what it costs its nodes."""
