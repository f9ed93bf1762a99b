"""The model that a node trains: weights and adapters, log-probabilities, memory, folders, checkpoints."""
