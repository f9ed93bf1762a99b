"""`python -m sapo_verifier` is `sapo-verify`."""

import sys

from sapo_verifier.cli import main

sys.exit(main())
