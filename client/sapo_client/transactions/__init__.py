"""What a node sends to the chain: each transaction once, at a bounded price, in its turn."""
