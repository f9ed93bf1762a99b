"""The devnet: a chain, IPFS daemons and nodes on this machine, each its own process, and a clock that waits."""
