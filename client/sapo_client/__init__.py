"""A node: policy, generation, SAPO training, publishing, and the command that runs it."""
