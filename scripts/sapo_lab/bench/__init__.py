"""`scripts/bench`: a node beside other trainers, on the same work in one run."""
