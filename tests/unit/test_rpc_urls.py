"""Which RPCs a command or a node asks: options, settings, and a file that only its owner can read."""

from pathlib import Path

import pytest

from sapo_client.state.assignments import assigned
from sapo_client.state.settings import FILE_NAME, ChainSettings, PolicySettings, Settings
from sapo_verifier.chain.urls import RPC, rpc_urls
from sapo_verifier.errors import SapoError, UsageError

KEYS = "# what costs nothing first\nhttps://a.example\n\n  https://b.example/v3/KEY \n#https://c.example\n"


def private(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_those_given_come_first_and_each_counts_once(tmp_path: Path) -> None:
    file = private(tmp_path / "rpcs", KEYS)
    assert rpc_urls(None, None) == rpc_urls([], None) == [RPC]
    assert rpc_urls(None, file) == ["https://a.example", "https://b.example/v3/KEY"]
    assert rpc_urls(["http://x", "https://a.example", "http://x"], file) == [
        "http://x",
        "https://a.example",
        "https://b.example/v3/KEY",
    ]


@pytest.mark.parametrize("mode", [0o400, 0o600])
def test_a_private_file_is_read(tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture) -> None:
    assert len(rpc_urls(None, private(tmp_path / "rpcs", KEYS, mode))) == 2
    assert caplog.text == ""


@pytest.mark.parametrize("mode", [0o440, 0o640])
def test_a_file_of_the_group_is_read_with_a_warning(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(rpc_urls(None, private(tmp_path / "rpcs", KEYS, mode))) == 2
    assert "can be read by other users" in caplog.text
    assert "KEY" not in caplog.text


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620, 0o602])
def test_a_file_of_others_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(UsageError, match=r"the RPC file .* can be read or changed by other users .* run: chmod 400"):
        rpc_urls(None, private(tmp_path / "rpcs", KEYS, mode))


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n"])
def test_a_file_without_a_url_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="names no URL; write RPC URLs into it"):
        rpc_urls(["http://x"], private(tmp_path / "rpcs", text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"there is no RPC file at {tmp_path}/rpcs; write RPC URLs"):
        rpc_urls(None, tmp_path / "rpcs")


# -- settings ----------------------------------------------------------------------------------------------------------


def settings(home: Path, chain: str) -> Settings:
    (home / FILE_NAME).write_text(f'[chain]\ndeployment = "/d.json"\n{chain}\n[policy]\nfolder = "/m"\n')
    return Settings.load(home)


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("", [RPC]),
        ('rpc = "http://a/k"', ["http://a/k"]),
        ('rpc = ["http://a/k"]', ["http://a/k"]),
        ('rpc = ["http://b", "http://a", "http://b"]', ["http://b", "http://a"]),
        ('rpc_file = "rpcs"', ["https://a.example", "https://b.example/v3/KEY"]),
        ('rpc = "http://x"\nrpc_file = "rpcs"', ["http://x", "https://a.example", "https://b.example/v3/KEY"]),
    ],
)
def test_a_home_names_one_or_several(tmp_path: Path, text: str, urls: list[str]) -> None:
    private(tmp_path / "rpcs", KEYS)
    found = settings(tmp_path, text)
    assert found.chain.rpc_urls(tmp_path) == urls
    (tmp_path / "again").mkdir()
    found.write(tmp_path / "again")
    assert Settings.load(tmp_path / "again") == found


def test_a_path_from_the_root_is_taken_as_it_is(tmp_path: Path) -> None:
    file = private(tmp_path / "rpcs", KEYS)
    chain = ChainSettings(deployment=Path("/d.json"), rpc_file=file)
    assert len(chain.rpc_urls(Path("/elsewhere"))) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rpc = []", "chain.rpc = []: List should have at least 1 item"),
        ("rpc = 5", "chain.rpc = 5"),
        ('rpc = ["https://u:KEY@a.example/KEY", 5]', "chain.rpc.1 = 5"),
        ('rpc = { url = "https://a.example/KEY" }', "chain.rpc = {'url': 'https://a.example/…'}"),
        ('rcp = "https://u:KEY@a.example/v3/KEY"', "chain.rcp = 'https://a.example/…'"),
        ("patience_minutes = -1", "chain.patience_minutes = -1"),
    ],
)
def test_what_cannot_be_is_named_without_its_secrets(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SapoError) as caught:
        settings(tmp_path, text)
    assert words in str(caught.value)
    assert "KEY" not in str(caught.value)


def test_the_command_line_sets_one_or_several() -> None:
    plain = Settings(chain=ChainSettings(deployment=Path("/d.json")), policy=PolicySettings(folder=Path("/m")))
    for text, urls in (("http://a", ["http://a"]), ('["http://a", "http://b"]', ["http://a", "http://b"])):
        assert plain.changed(assigned([f"chain.rpc={text}"]), "the options").chain.rpc == urls
    assert plain.chain.patience_minutes == 30
