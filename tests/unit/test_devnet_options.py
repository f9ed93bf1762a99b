"""The devnet's command line, and what it says where Anvil is missing."""

from pathlib import Path

import pytest

from sapo_devnet import anvil
from sapo_devnet.__main__ import main, read
from sapo_devnet.options import Options
from sapo_verifier.errors import SapoError


def test_what_is_not_given_is_as_options_have_it() -> None:
    assert read([]) == Options()
    chosen = read(["--nodes", "2", "--kill", "1:3", "--attack", "solver,lazy", "--data", "x"])
    assert chosen == Options(nodes=2, kill=(1, 3), attack=["solver", "lazy"], data=Path("x"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--kill", "1"], "NODE:ROUND"),
        (["--kill", "a:b"], "NODE:ROUND"),
        (["--attack", "nap"], "no such attack: nap"),
        (["--spot", "0"], "--spot"),
        (["--spot", "257"], "--spot"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(options)
    assert end.value.code == 2
    assert words in capsys.readouterr().err


def test_without_anvil_it_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anvil, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SapoError, match="run scripts/setup"):
        anvil.anvil_binary()
    (tmp_path / "anvil").write_text("")
    (tmp_path / "anvil").chmod(0o755)
    assert anvil.anvil_binary() == tmp_path / "anvil"


def test_an_anvil_that_does_not_start_is_told_from_its_log(tmp_path: Path) -> None:
    with pytest.raises(SapoError, match=r"Anvil did not start; its log .*\n.*--nonsense"):
        anvil.Anvil(tmp_path / "log", "--nonsense")
