"""`python -m sapo_lab.experiment`: see scripts/experiment."""

import sys

from sapo_lab.experiment.commands import main

if __name__ == "__main__":
    sys.exit(main())
