"""What Anvil keeps of old blocks lies in the folder it was given, and goes with it."""

from pathlib import Path

import pytest

from sapo_devnet.anvil import Anvil

IN_MEMORY = 500  # states; Anvil writes older ones to disk


@pytest.mark.parametrize("killed", [False, True])
def test_old_states_lie_beside_the_log_until_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    home, folder = tmp_path / "home", tmp_path / "chain"
    home.mkdir(), folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    chain = Anvil(folder / "anvil.log")
    try:
        chain.mine(3 * IN_MEMORY)
        assert any(chain.states.rglob("*.json")), "old states are on disk, so that explorers can ask for them"
        assert int(chain.rpc("eth_getBalance", "0x" + "00" * 20, hex(IN_MEMORY)), 16) == 0
        if killed:
            chain.process.kill()
    finally:
        chain.stop()
    assert sorted(folder.iterdir()) == [folder / "anvil.log"]
    assert not any(home.rglob("*")), "nothing is left in the user's home"
