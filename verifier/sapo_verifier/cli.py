"""The `sapo-verify` command: audit what is on chain, trusting nobody. A key only to send; torch only for --model."""

from collections.abc import Sequence

from sapo_verifier.commands.program import Program

PROGRAM = Program(
    name="sapo-verify",
    description="Audit a SAPO network. Needs no key and no account, but to send a fraud proof.",
    package="sapo_verifier.commands",
    commands=("batch", "check", "cid", "export", "node", "prove", "round", "serve", "show", "tx"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 the network decided as the checks do, 1 it did not, 2 wrong usage, 3 unknown or not final yet."""
    return PROGRAM.main(argv)
