"""vLLM in a process and an environment of its own: the node's end (engine.py) and the process (child.py, forced.py)."""
