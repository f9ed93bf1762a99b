"""A policy that is a formula: honest batches without a model, and nodes that publish and judge them."""
