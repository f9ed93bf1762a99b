"""A node's settings: TOML there and back, and every mistake named."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapo_client.state.assignments import assigned
from sapo_client.state.settings import (
    FILE_NAME,
    AuditSettings,
    ChainSettings,
    GenerationSettings,
    IpfsSettings,
    PolicySettings,
    SapoSettings,
    Settings,
)
from sapo_verifier.errors import SapoError, UsageError


def settings(**sapo: object) -> Settings:
    return Settings(
        chain=ChainSettings(deployment=Path("/net/deployment.json"), owner="0x" + "ab" * 20, poll_seconds=0.25),
        policy=PolicySettings(folder=Path('/models/a "quoted" \\ name, ünïcode')),
        ipfs=IpfsSettings(allow_private=True, endpoint="/dns4/example.org/tcp/443/https"),
        sapo=SapoSettings.model_validate(sapo),
        threads=3,
    )


def test_settings_come_back_as_they_were_written(tmp_path: Path) -> None:
    written = settings(own_groups=7, external="drop-negatives", learning_rate=3e-5, seed=-4)
    written.write(tmp_path)
    assert Settings.load(tmp_path) == written
    assert tomllib.loads((tmp_path / FILE_NAME).read_text())["ipfs"]["allow_private"] is True


@given(
    name=st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), min_size=1),
    rate=st.floats(min_value=1e-300, max_value=1e300),
    seed=st.integers(min_value=-(2**63), max_value=2**63 - 1),
)
def test_every_string_and_number_survives(
    tmp_path_factory: pytest.TempPathFactory, name: str, rate: float, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("home")
    policy = PolicySettings(folder=Path("/models"), base=name)
    chain = ChainSettings(deployment=Path("/d.json"))
    written = Settings(chain=chain, policy=policy, sapo=SapoSettings(learning_rate=rate, seed=seed))
    written.write(folder)
    assert Settings.load(folder) == written


def test_what_is_not_set_is_not_written_and_has_its_default(tmp_path: Path) -> None:
    Settings(chain=ChainSettings(deployment=Path("/d.json")), policy=PolicySettings(folder=Path("/m"))).write(tmp_path)
    text = (tmp_path / FILE_NAME).read_text()
    assert "owner" not in text
    assert "endpoint" not in text
    assert Settings.load(tmp_path).sapo == SapoSettings()


def test_the_engine_and_its_options_come_back(tmp_path: Path) -> None:
    chosen = GenerationSettings(engine="vllm", vllm_python=Path("/v/bin/python"), kv_cache_bytes=1 << 33, eager=False)
    settings().model_copy(update={"generation": chosen}).write(tmp_path)
    assert Settings.load(tmp_path).generation == chosen


def test_settings_are_never_overwritten(tmp_path: Path) -> None:
    settings().write(tmp_path)
    with pytest.raises(SapoError, match="exists already"):
        settings(own_groups=9).write(tmp_path)
    assert Settings.load(tmp_path) == settings()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('external = "drop-negatives"', 'external = "all"', "sapo.external = 'all'"),
        ("own_groups = 4", "own_groups = 257", "sapo.own_groups = 257"),
        ("own_groups = 4", "own_grups = 4", "sapo.own_grups = 4: there is no such key; the nearest is sapo.own_groups"),
        ("seed = 0", "lora_rank = 8", "sapo.lora_rank = 8: there is no such key; the nearest is policy.lora_rank"),
        ("own_groups = 4", "gateways = 4", "sapo.gateways = 4: there is no such key; the nearest is ipfs.gateway"),
        ("own_groups = 4", "zzz = 4", "sapo.zzz = 4: there is no such key"),
        ("threads = 3", 'threads = "many"', "threads = 'many'"),
        ('engine = "torch"', 'engine = "tgi"', "generation.engine = 'tgi'"),
        ("gpu_memory_utilization = 0.5", "gpu_memory_utilization = 1.5", "generation.gpu_memory_utilization = 1.5"),
        ("poll_seconds = 0.25", "poll_seconds = nan", "chain.poll_seconds = nan"),
        ("[policy]", "[polizy]", "there is no such key; the nearest is policy"),
        ("[chain]", "[chain", "is not TOML"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, old: str, new: str, words: str) -> None:
    settings().write(tmp_path)
    path = tmp_path / FILE_NAME
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(SapoError, match=r"node\.toml") as caught:
        Settings.load(tmp_path)
    assert words in str(caught.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SapoError, match="is not TOML"):
        Settings.load(tmp_path)


def test_a_folder_without_settings_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(SapoError, match=f"sapo init --home {tmp_path}"):
        Settings.load(tmp_path)


def test_the_policy_check_is_made_unless_it_is_turned_off(tmp_path: Path) -> None:
    settings().write(tmp_path)
    assert Settings.load(tmp_path).audit.policy_check
    path = tmp_path / FILE_NAME
    path.write_text(path.read_text().replace("policy_check = true\nbases = []", "policy_check = false\nbases = ['/b']"))
    assert Settings.load(tmp_path).audit == AuditSettings(policy_check=False, bases=[Path("/b")])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("sapo.own_groups=8", 8),
        ("sapo.learning_rate = 3e-5", 3e-5),
        ("audit.vote=false", False),
        ("audit.bases=['/a', '/b']", ["/a", "/b"]),
        ("policy.device=cuda:1", "cuda:1"),
        ('policy.device="cpu"', "cpu"),
        ("generation.engine=vllm", "vllm"),
        ("chain.rpc=http://127.0.0.1:1/?a=b", "http://127.0.0.1:1/?a=b"),
        ("chain.rpc=a\nb = 1", "a\nb = 1"),
        ("ipfs.endpoint=", ""),
    ],
)
def test_a_setting_of_the_command_line_is_toml_or_a_bare_word(text: str, value: object) -> None:
    (section,) = assigned([text]).values()
    assert list(section.values()) == [value]


def test_settings_of_the_command_line_change_what_they_name_and_nothing_else() -> None:
    changes = assigned(["sapo.own_groups=8", "threads=2", "sapo.external_groups=1", "sapo.own_groups=9"])
    assert changes == {"sapo": {"own_groups": 9, "external_groups": 1}, "threads": 2}
    changed = settings(seed=5).changed(changes, "the options")
    assert changed == settings(seed=5, own_groups=9, external_groups=1).model_copy(update={"threads": 2})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sapo.own_groups", "give section.key=value"),
        ("=4", "give section.key=value"),
        ("sapo..own_groups=4", "give section.key=value"),
        ("sapo.own_grups=4", "the options: sapo.own_grups = 4: there is no such key; the nearest is sapo.own_groups"),
        ("own_groups=4", "the options: own_groups = 4: there is no such key; the nearest is sapo.own_groups"),
        ("sap.own_groups=4", "there is no such key; the nearest is sapo"),
        ("sapo.own_groups=many", "the options: sapo.own_groups = 'many'"),
        ("sapo=4", "the options: sapo = 4"),
        ("threads.x=4", "threads is a setting and no section"),
        ("sapo.seed.x=4", "seed is a setting and no section"),
    ],
)
def test_what_cannot_be_set_is_named(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        settings().changed(assigned([text]), "the options")
    assert words in str(caught.value)
