"""What `--policy` may be: a folder, or a name on the hub; and words for a machine that cannot reach one."""

from pathlib import Path

import pytest

from sapo_client.policy.hub import model_folder
from sapo_devnet.testkit.swarm import sapo
from sapo_verifier.errors import SapoError


def test_a_folder_is_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "owner" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert model_folder("owner/name") == model_folder(str(tmp_path / "owner" / "name")) == tmp_path / "owner" / "name"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert model_folder("~/owner") == tmp_path / "owner"


@pytest.mark.parametrize(
    "name", ["model", "./model", "/models/qwen", "a/b/c", "../a", "a/..", "", "https://a/b", "a/b@"]
)
def test_what_is_neither_folder_nor_name_is_told_so(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SapoError, match=r"no folder, and no model's name on the hub, such as Qwen/"):
        model_folder(name or "./nothing")


def test_without_the_hub_a_name_is_explained_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real command, with a hub that nobody answers for."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    home = tmp_path / "home"
    words = ("init", "--home", home, "--deployment", tmp_path / "none.json", "--policy", "Qwen/Qwen2.5-0.5B-Instruct")
    done = sapo(*words)
    assert done.returncode == 3
    assert "the Hugging Face hub does not answer" in done.stderr
    assert "copy the model's folder here" in done.stderr
    assert not home.exists()


@pytest.mark.parametrize("missing", ["model.safetensors", "tokenizer.json"])
def test_a_model_without_safetensors_or_tokenizer_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """From the hub's cache, as an earlier download left it; nothing is asked for."""
    revision = "a" * 40
    snapshot = tmp_path / "hub" / "models--owner--name" / "snapshots" / revision
    snapshot.mkdir(parents=True)
    refs = tmp_path / "hub" / "models--owner--name" / "refs"
    refs.mkdir()
    (refs / "main").write_text(revision)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (snapshot / name).write_text("{}")
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert model_folder("owner/name") == model_folder(f"owner/name@{revision}") == snapshot
    (snapshot / missing).unlink()
    with pytest.raises(SapoError, match="no safetensors files or no tokenizer"):
        model_folder("owner/name")
