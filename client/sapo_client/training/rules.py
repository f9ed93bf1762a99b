"""The rules by which other nodes' completions count in training, by name: for the algorithm, settings and commands.

What each does: `sapo.TrainConfig`.
"""

from typing import Literal, get_args

External = Literal["drop-negatives", "truncated", "truncated-drop-negatives", "clipped", "as-own"]

EXTERNAL_RULES: tuple[str, ...] = get_args(External)
DEFAULT_EXTERNAL: External = "drop-negatives"  # the best of them in docs/results/experiments.md
