"""A swarm of two bases: other tokenizers, other templates, all weights here and adapters there, one pool of text."""

from collections.abc import Iterator
from typing import Any

import pytest

from answering import chat_folder, compact_folder, two_bases
from sapo_client.state.report import read_rounds
from sapo_client.state.settings import Settings
from sapo_devnet.nodes import DevnetNode
from sapo_devnet.policies import DevnetPolicy
from sapo_devnet.testkit.swarm import Swarm, swarm
from sapo_verifier.ipfs import GatewayReader
from sapo_verifier.objects import BatchManifest, GroupBlock, PolicyManifest

ROUNDS = 4
RANK = 4


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Swarm]:
    """Two nodes, one of each base, after round 4."""
    folder = tmp_path_factory.mktemp("swarm")
    compact, chat = compact_folder(folder / "compact"), chat_folder(folder / "chat")
    policies = [DevnetPolicy("pocket", compact, 0), DevnetPolicy("chat", chat, RANK)]
    with swarm(folder, compact, spec=two_bases(compact, chat), policies=policies) as net:
        for _ in policies:
            net.add(own_groups=4, external_groups=4).start()
        net.begin()
        net.play_to(ROUNDS + 1)
        yield net


def reports(node: DevnetNode) -> list[dict[str, Any]]:
    return [report for report in read_rounds(node.home) if report["round"] >= 1]


def test_each_trains_on_the_other_s_text_after_every_check(played: Swarm) -> None:
    for node in played.nodes:
        mine = reports(node)
        assert [report["round"] for report in mine] == list(range(1, ROUNDS + 1))
        assert [report["failures"] for report in mine] == [[]] * ROUNDS, played.logs()
        drawn, checked = (sum(report[name] for report in mine) for name in ("external_drawn", "external_checked"))
        assert drawn == checked == 4 * (ROUNDS - 1)
        assert sum(report["external_used"] for report in mine) > 0
        assert sum(report["seconds_policy_passes"] for report in mine) > 0
        assert sum(report["bytes_weights"] for report in mine) > 0, "what the other trained was fetched and run"


def test_each_publishes_what_it_trains(played: Swarm) -> None:
    """All weights or adapters, by the settings."""
    with GatewayReader(allow_private=True) as store:
        for node, kind in zip(played.nodes, ("full", "lora"), strict=True):
            assert Settings.load(node.home).policy.lora_rank == (RANK if kind == "lora" else 0)
            committed = played.reader.policy_of(node.address, ROUNDS)
            assert committed is not None
            manifest = PolicyManifest.parse(store.get(committed.digest, peers=[node.gateway]))
            assert manifest.kind == kind
            assert manifest.lora is None or (manifest.lora.rank, manifest.lora.alpha) == (RANK, 2 * RANK)


def test_the_same_kind_of_task_is_asked_in_each_base_s_own_words(played: Swarm) -> None:
    with GatewayReader(allow_private=True) as store:
        for node, begins in zip(played.nodes, ("", "<|im_start|>user\n"), strict=True):
            index = played.reader.batch_of(node.address, 1)
            assert index is not None
            manifest = BatchManifest.parse(store.get(played.reader.batch_at(index).manifest, peers=[node.gateway]))
            groups = [GroupBlock.parse(store.get(digest, peers=[node.gateway])) for digest in manifest.groups]
            assert {group.dataset for group in groups} <= {"gcd", "count_bits"}
            assert all(group.prompt.startswith(begins) for group in groups)
            assert all((len(group.prompt) > 32) == bool(begins) for group in groups)
