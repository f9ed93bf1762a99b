"""`python -m sapo_experiment`: see scripts/experiment."""

import sys

from sapo_experiment.commands import main

if __name__ == "__main__":
    sys.exit(main())
