"""What anybody needs to audit the network: protocol objects, tasks, block store, chain reader, checks. No torch.

What stands in `__all__` is the library (docs/auditors.md); everything else may change. The names are looked up when
they are used: importing this package loads nothing.
"""

from typing import TYPE_CHECKING

from sapo_verifier.version import __version__

if TYPE_CHECKING:
    from sapo_verifier.audit import CheckResult
    from sapo_verifier.chain.deployment import Deployment
    from sapo_verifier.chain.reader import ChainReader, open_chain
    from sapo_verifier.checks import Verdict
    from sapo_verifier.errors import SapoError, UnableError, UsageError
    from sapo_verifier.facts import BatchInfo
    from sapo_verifier.history import NodeHistory, node_history
    from sapo_verifier.rounds import RoundReport, verify_round
    from sapo_verifier.showing import Shown, show
    from sapo_verifier.spec import Spec
    from sapo_verifier.verify import Verified, Verifier, open_verifier, verify_batch

__all__ = [
    "BatchInfo",
    "ChainReader",
    "CheckResult",
    "Deployment",
    "NodeHistory",
    "RoundReport",
    "SapoError",
    "Shown",
    "Spec",
    "UnableError",
    "UsageError",
    "Verdict",
    "Verified",
    "Verifier",
    "__version__",
    "node_history",
    "open_chain",
    "open_verifier",
    "show",
    "verify_batch",
    "verify_round",
]

if not TYPE_CHECKING:  # or type checkers would believe that every name is here
    from sapo_verifier.lazy import lookup

    __getattr__ = lookup(
        __name__,
        {
            "sapo_verifier.audit": ("CheckResult",),
            "sapo_verifier.chain.deployment": ("Deployment",),
            "sapo_verifier.chain.reader": ("ChainReader", "open_chain"),
            "sapo_verifier.checks": ("Verdict",),
            "sapo_verifier.errors": ("SapoError", "UnableError", "UsageError"),
            "sapo_verifier.facts": ("BatchInfo",),
            "sapo_verifier.history": ("NodeHistory", "node_history"),
            "sapo_verifier.rounds": ("RoundReport", "verify_round"),
            "sapo_verifier.showing": ("Shown", "show"),
            "sapo_verifier.spec": ("Spec",),
            "sapo_verifier.verify": ("Verified", "Verifier", "open_verifier", "verify_batch"),
        },
        "pip install sapo-network",
    )

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
