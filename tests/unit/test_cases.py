"""What stage 2 is asked, where an RPC does not announce all that it takes."""

from types import SimpleNamespace
from typing import Any

import pytest

from sapo_client.duties import cases, testimony
from sapo_client.duties.cases import Cases
from sapo_verifier.chain.errors import ChainUnavailable

INDEX, ABOUT = 7, 8
NODE, DISPUTER = "0x" + "11" * 20, "0x" + "22" * 20


def test_a_dispute_about_answers_that_were_never_announced_is_the_rpc_s_trouble(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The contract takes no such dispute: logs are missing, and the node goes on and asks again."""
    batch: Any = SimpleNamespace(index=INDEX, node=NODE)
    dispute = SimpleNamespace(index=INDEX, about=ABOUT, disputer=DISPUTER)
    outcome = SimpleNamespace(index=INDEX, accepted_in_stage_1=lambda least: True)
    spec = SimpleNamespace(chain=SimpleNamespace(min_accepts=2))
    actor: Any = SimpleNamespace(
        node="0x" + "33" * 20,
        audits=SimpleNamespace(outcomes_of=lambda indices: [outcome]),
        reader=SimpleNamespace(
            where="the RPC",
            block_number=lambda: 1,
            batches_at=lambda indices: [SimpleNamespace(index=index) for index in indices],
            deployment=SimpleNamespace(spec=spec),
        ),
    )
    monkeypatch.setattr(cases, "disputes_of", lambda *_: [dispute])
    monkeypatch.setattr(testimony, "reveals_of", lambda *_, **__: [])
    with pytest.raises(ChainUnavailable, match="use another RPC if it stays so"):
        Cases.read(actor, 2, [batch])
