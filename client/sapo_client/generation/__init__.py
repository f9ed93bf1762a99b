"""From prompts and streams to completions and their records: engines, and vLLM in a process of its own."""
