"""Does sharing help? A swarm in one process, with the product's own code."""
