"""Prompts, streams and limits of the tests here."""

import random

from sapo_client.pocket import VOCAB

CONTEXT = 512
MAX_NEW_TOKENS = 96
EOS = [1, 7]


def rows_of(
    prompts: int, *, group: int, seed: int = 0, least: int = 60, most: int = 200
) -> tuple[list[list[int]], list[bytes]]:
    """`group` rows of each prompt, and a stream for each row."""
    rng = random.Random(seed)
    drawn = [[rng.randrange(2, VOCAB) for _ in range(rng.randint(least, most))] for _ in range(prompts)]
    return [prompt for prompt in drawn for _ in range(group)], [rng.randbytes(32) for _ in range(prompts * group)]
