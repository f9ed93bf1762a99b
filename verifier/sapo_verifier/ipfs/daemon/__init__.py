"""The embedded IPFS daemon: blocks on disk, behind Kubo's RPC and a trustless gateway."""
