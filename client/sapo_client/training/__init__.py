"""What a node learns and how: the algorithm and its loss, the policy with its adapters, checkpoints."""
