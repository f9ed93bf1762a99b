"""`python -m sapo_verifier.schemas`: writes the schemas beside this file."""

from pathlib import Path

from sapo_verifier.schemas import write

write(Path(__file__).parent)
