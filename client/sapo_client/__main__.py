"""`python -m sapo_client` is `sapo`."""

import sys

from sapo_client.cli import main

sys.exit(main())
