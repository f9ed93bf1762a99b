"""`python -m sapo_devnet.adversaries ATTACK --home FOLDER --password-file FILE`: `sapo run`, but hostile.

Registers its node.
"""

import argparse
import sys
from pathlib import Path

from sapo_client.state import logs
from sapo_devnet.adversaries.names import ATTACKS
from sapo_verifier.errors import SapoError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m sapo_devnet.adversaries", description="Run a hostile node.")
    parser.add_argument("attack", choices=sorted(ATTACKS))
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--password-file", type=Path, required=True)
    options = parser.parse_args()
    logs.begin()
    from sapo_client.node.preflight import ready
    from sapo_client.node.start import run
    from sapo_devnet.adversaries.attacks import CLASSES

    attack = CLASSES[options.attack]()
    attack.prepare(options.home)
    try:
        with ready(options.home, options.password_file, register=True) as checked:
            run(checked, attack.makers())
    except SapoError as error:
        print(f"adversaries: {error}", file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
