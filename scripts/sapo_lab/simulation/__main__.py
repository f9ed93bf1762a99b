"""`python -m sapo_lab.simulation`: see scripts/simulate."""

import sys

from sapo_lab.simulation.commands import main

if __name__ == "__main__":
    sys.exit(main())
