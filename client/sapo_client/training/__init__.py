"""What a node learns and how: the algorithm, its loss, and by which rules other nodes' completions count."""
