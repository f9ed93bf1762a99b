"""The weights of a committed digest: those at hand, the base's, or those of a checkpoint, and afterwards the latest."""

from pathlib import Path

import pytest
import torch

from sapo_client.batches.committed import PUBLISHED, committed_weights
from sapo_client.policy.checkpoint import save_checkpoint
from sapo_client.policy.policy import Policy
from sapo_client.policy.published import Published
from sapo_client.training.sapo import TrainConfig, make_optimizer
from sapo_devnet.testkit.tiny_policy import tiny_policy
from sapo_verifier.objects import NO_AUDIT

AUDIT, OTHER = b"\5" * 32, b"\6" * 32


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return tiny_policy(tmp_path / "base")


def changed(policy: Policy, folder: Path, round_: int) -> Published:
    """Other weights, published and saved as the checkpoint of that round."""
    with torch.no_grad():
        next(iter(policy.parameters())).add_(1.0 + round_)
    policy.untouched = False
    published = policy.publish()
    state = {PUBLISHED: published.manifest.decode()}
    save_checkpoint(folder, policy, make_optimizer(policy, TrainConfig()), round_=round_, state=state)
    return published


def test_they_are_there_while_the_block_lasts(tmp_path: Path, policy: Policy) -> None:
    folder = tmp_path / "checkpoints"
    base = policy.publish()
    first = changed(policy, folder, 1)
    latest = changed(policy, folder, 2)
    for wanted in (base, first, latest):
        committed = wanted.under(AUDIT)
        assert (committed.digest != wanted.digest, committed.blocks == wanted.blocks) == (True, True)
        with committed_weights(policy, latest, committed.digest, [OTHER, AUDIT], folder) as found:
            assert found == committed
            assert policy.publish() == wanted
            assert policy.untouched == (wanted == base)
        assert policy.publish() == latest
        assert not policy.untouched


def test_they_go_back_when_the_block_fails(tmp_path: Path, policy: Policy) -> None:
    folder = tmp_path / "checkpoints"
    first = changed(policy, folder, 1)
    latest = changed(policy, folder, 2)
    with pytest.raises(KeyError), committed_weights(policy, latest, first.digest, [NO_AUDIT], folder):
        raise KeyError
    assert policy.publish() == latest


def test_a_digest_that_nothing_has_is_none(tmp_path: Path, policy: Policy) -> None:
    folder = tmp_path / "checkpoints"
    first = changed(policy, folder, 1)
    latest = changed(policy, folder, 2)
    with committed_weights(policy, latest, bytes(32), [NO_AUDIT], folder) as found:
        assert found is None
    with committed_weights(policy, latest, first.under(AUDIT).digest, [OTHER], folder) as found:
        assert found is None, "of another audit, which is not known here"
    (folder / "round-00000001" / "weights.safetensors").write_bytes(b"")
    with committed_weights(policy, latest, first.digest, [NO_AUDIT], folder) as found:
        assert found is None
    assert policy.publish() == latest


def test_a_base_that_was_never_trained_is_at_hand(tmp_path: Path, policy: Policy) -> None:
    latest = policy.publish()
    with committed_weights(policy, latest, policy.published_base().digest, [NO_AUDIT], tmp_path / "none") as found:
        assert found == latest
