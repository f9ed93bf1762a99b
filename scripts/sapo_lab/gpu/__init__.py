"""`scripts/gpu-check`: what a graphics card makes of a Qwen-sized model."""
