"""The `sapo-verify` command: audit what is on chain, trusting nobody. A key only to send; torch only for --model."""

from collections.abc import Sequence

from sapo_verifier.commands.program import Program

PROGRAM = Program(
    name="sapo-verify",
    description="Audit a SAPO network. Needs no key and no account, but to send a fraud proof.",
    package="sapo_verifier.commands",
    commands=("batch", "check", "export", "prove", "round"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 no check failed, 1 one did, 2 wrong usage, 3 the audit could not be made (both in words)."""
    return PROGRAM.main(argv)
