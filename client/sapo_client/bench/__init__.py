"""`sapo bench`: what this machine can do, without chain and IPFS."""
