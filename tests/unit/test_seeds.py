"""Seeds: the same after a crash, another for each thing that they are bound to, and known to the key alone."""

from typing import Any

import pytest
from eth_account import Account
from eth_hash.auto import keccak

from sapo_client.batches.seeds import Seeds
from sapo_devnet.testkit.networks import small_spec
from sapo_verifier.chain.deployment import Contracts, Deployment
from sapo_verifier.cid import block_digest
from sapo_verifier.ipfs import StoreFailed
from sapo_verifier.objects import NO_AUDIT, PolicyManifest
from voters import FakeStore

KEY, OTHER_KEY = Account.from_key(b"\1" * 32), Account.from_key(b"\2" * 32)
NODE = "0x" + "ab" * 20
ROUND = 7


class Chain:
    """A chain on which the node committed one policy, or none."""

    def __init__(self, chain_id: int = 31337, rounds: str = "0x" + "12" * 20, committed: bytes | None = None) -> None:
        spec, places = small_spec(), dict.fromkeys(Contracts.model_fields, "0x" + "34" * 20) | {"rounds": rounds}
        self.deployment = Deployment(
            chain_id=chain_id, block=1, block_hash=bytes(32), first_block=9,
            contracts=Contracts(**places), spec_digest=spec.digest(), spec=spec,
        )  # fmt: skip
        self._committed = committed

    def policy_of(self, node: str, round_: int) -> Any:
        assert (node, round_) == (NODE, ROUND)
        return None if self._committed is None else type("Committed", (), {"digest": self._committed})


def seeds(chain: Any = None, account: Any = KEY, node: str = NODE, store: Any = None) -> Seeds:
    return Seeds.of(account, node, Chain() if chain is None else chain, FakeStore() if store is None else store)


def test_they_are_the_same_again_and_differ_in_everything_they_are_bound_to() -> None:
    mine = seeds().seed(ROUND)
    assert len(mine) == 32
    assert seeds().seed(ROUND) == mine
    others = [
        seeds().seed(ROUND + 1),
        seeds(account=OTHER_KEY).seed(ROUND),
        seeds(node="0x" + "cd" * 20).seed(ROUND),
        seeds(Chain(chain_id=1)).seed(ROUND),
        seeds(Chain(rounds="0x" + "13" * 20)).seed(ROUND),
    ]
    assert len({mine, *others}) == 6
    assert seeds().audit(ROUND) == keccak(mine)


def test_the_key_is_not_in_what_is_kept_or_shown() -> None:
    made = seeds()
    assert made.secret != bytes(KEY.key)
    for secret in (bytes(KEY.key), made.secret):
        assert secret.hex() not in repr(made)
        assert repr(secret) not in repr(made)


def manifest(audit: bytes) -> bytes:
    return PolicyManifest(audit=audit, base="tiny", kind="base", size=0, blocks=[]).encode()


def test_who_made_the_policy_holds_its_seed_and_nobody_else_does() -> None:
    policy = manifest(seeds().audit(ROUND))
    chain, store = Chain(committed=block_digest(policy)), FakeStore({block_digest(policy): policy})
    assert seeds(chain, store=store).why_none(ROUND) == ""
    assert seeds(Chain()).why_none(ROUND) == "", "without a policy of its own there is nothing to fit"
    new_key = seeds(chain, OTHER_KEY, store=store)
    assert "made with another operator key" in new_key.why_none(ROUND)
    assert new_key.audits(ROUND, block_digest(policy)) == [new_key.audit(ROUND), seeds().audit(ROUND)]
    assert seeds(chain, store=store).audits(ROUND, block_digest(policy)) == [seeds().audit(ROUND)]


def test_a_manifest_that_is_lost_is_said_and_what_this_key_would_say_stays() -> None:
    lost = manifest(NO_AUDIT)
    made = seeds(Chain(committed=block_digest(lost)))
    assert "is not in its IPFS daemon any more" in made.why_none(ROUND)
    assert made.audits(ROUND, block_digest(lost)) == [made.audit(ROUND)]


def test_a_daemon_that_cannot_tell_is_no_answer() -> None:
    class Away(FakeStore):
        def get_many(self, wants: Any, peers: Any, *, deadline: float) -> Any:
            return {digest: StoreFailed("the daemon is away") for digest, _ in wants}

    made = seeds(Chain(committed=bytes(32)), store=Away())
    with pytest.raises(StoreFailed):
        made.why_none(ROUND)
