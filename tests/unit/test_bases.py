"""A base is its files: the digest sees each of them and no others, and the tokenizer skips nothing."""

import hashlib
import json

import pytest
from tokenizers import Tokenizer as RustTokenizer
from tokenizers import decoders, models, pre_tokenizers

from bare_base import bare_base
from sapo_devnet.testkit.networks import small_spec
from sapo_verifier.bases import BaseMissingError, Bases, Tokenizer, base_in, digest_of_folder, find_base
from sapo_verifier.errors import SapoError, UsageError
from sapo_verifier.spec import BaseRule
from vectors import VECTORS


def rule(digest, id="tiny"):
    return BaseRule(
        id=id, digest=digest, vocab=10, eos=[0], context=64, template="compact", max_token_bytes=4,
        max_adapter_bytes=1, max_rank=0,
    )  # fmt: skip


def spec_of(*bases):
    return small_spec(bases=[base.model_dump(mode="json") | {"max_token_bytes": 24} for base in bases])


@pytest.fixture
def folder(tmp_path):
    return bare_base(tmp_path / "base", weights="abc")


def listed(**files):
    """The canonical list of files of these contents, hashed."""
    texts = {name: "0x" + hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    return hashlib.sha256(json.dumps(texts, sort_keys=True, separators=(",", ":")).encode()).digest()


BARE = {"config.json": "{}", "model.safetensors": "abc", "tokenizer.json": "{}"}


def test_the_digest_is_that_of_the_canonical_list_of_files(folder):
    assert digest_of_folder(folder) == listed(**BARE)
    more = {"generation_config.json": "1", "tokenizer_config.json": "2"}
    for name, text in more.items():
        (folder / name).write_text(text)
    assert digest_of_folder(folder) == listed(**BARE, **more)


@pytest.mark.parametrize("case", VECTORS["base_digest"])
def test_committed_digests(tmp_path, case):
    for name, text in case["files"].items():
        (tmp_path / name).write_text(text)
    assert digest_of_folder(tmp_path).hex() == case["out"][2:]


def shard(folder, *names, more=()):
    """An index that names these, in place of the whole file."""
    (folder / "model.safetensors").unlink()
    for name in names:
        (folder / name).write_text(name)
    places = {f"tensor {i}": name for i, name in enumerate([*names, *names, *more])}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


def test_shards_are_those_that_the_index_names(folder):
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    shard(folder, *names)
    files = {"config.json": "{}", "tokenizer.json": "{}"} | {name: name for name in names}
    files["model.safetensors.index.json"] = (folder / "model.safetensors.index.json").read_text()
    assert digest_of_folder(folder) == listed(**files)
    (folder / "model-00003-of-00002.safetensors").write_text("of somebody else")
    assert digest_of_folder(folder) == listed(**files)
    (folder / names[1]).write_text("another")
    assert digest_of_folder(folder) != listed(**files)


@pytest.mark.parametrize(
    "place", ["../secret.safetensors", "/etc/secret.safetensors", "deep/x.safetensors", "x.bin", 7]
)
def test_a_shard_elsewhere_is_refused(folder, place):
    shard(folder, "model-1.safetensors", more=[place])
    (folder.parent / "secret.safetensors").write_text("x")
    (folder / "x.bin").write_text("x")
    with pytest.raises(
        SapoError, match=r"index\.json says that tensor 2 is in .* no safetensors file of its own folder"
    ):
        digest_of_folder(folder)


def test_a_shard_that_is_not_there_is_named(folder):
    shard(folder, "model-1.safetensors", more=["model-2.safetensors"])
    with pytest.raises(SapoError, match=r"index\.json names model-2\.safetensors, which is not there"):
        digest_of_folder(folder)


def change_a_byte(folder):
    (folder / "model.safetensors").write_bytes(b"abd")


def swap(folder):
    (folder / "tokenizer.json").write_bytes(b"abc")
    (folder / "model.safetensors").write_bytes(b"{}")


def generation(folder):
    (folder / "generation_config.json").write_bytes(b"")


def described(folder):
    (folder / "tokenizer_config.json").write_bytes(b"{}")


@pytest.mark.parametrize("change", [change_a_byte, swap, generation, described])
def test_the_digest_changes_with(folder, change):
    before = digest_of_folder(folder)
    change(folder)
    assert digest_of_folder(folder) != before


STRAYS = [
    "README.md", ".gitattributes", ".git/HEAD", ".cache/huggingface/download/config.json.lock", "pytorch_model.bin",
    "pytorch_model.bin.index.json", "model.onnx", "onnx/model.onnx", "tf_model.h5", "consolidated.safetensors",
    "model.fp16.safetensors", "model.safetensors.index.json", "original/params.json", "vocab.json", "merges.txt",
    "special_tokens_map.json", "added_tokens.json", "chat_template.jinja", "modeling_own.py", "adapter_config.json",
    "config.4.0.0.json", "tokenizer.model", "config.json.lock",
]  # fmt: skip


def test_a_full_folder_has_the_same_digest(folder):
    before = digest_of_folder(folder)
    for name in STRAYS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("of no use to a node")
    assert digest_of_folder(folder) == before


def test_a_hidden_parent_does_not_hide_the_base(folder, tmp_path):
    before = digest_of_folder(folder)
    (tmp_path / ".models").mkdir()
    assert digest_of_folder(folder.rename(tmp_path / ".models" / "base")) == before


def test_the_hubs_cache_is_a_folder_of_links(folder, tmp_path):
    """snapshots/<revision>/<name> leads to blobs/<hash>, by a relative path."""
    model = tmp_path / "hub" / "models--owner--name"
    snapshot = model / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (model / "blobs").mkdir()
    for number, name in enumerate(BARE):
        (folder / name).rename(model / "blobs" / str(number))
        (snapshot / name).symlink_to(f"../../blobs/{number}")
    assert digest_of_folder(snapshot) == listed(**BARE)
    (model / "blobs" / "1").unlink()
    with pytest.raises(SapoError, match="has neither model"):
        digest_of_folder(snapshot)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("config.json", r"has no config\.json; a base needs one"),
        ("tokenizer.json", r"has no tokenizer\.json; a base needs one"),
        ("model.safetensors", r"has neither model\.safetensors nor model\.safetensors\.index\.json"),
    ],
)
def test_what_a_folder_lacks_is_named(folder, name, words):
    (folder / name).unlink()
    (folder / "pytorch_model.bin").write_text("no weights of ours")
    with pytest.raises(SapoError, match=words):
        digest_of_folder(folder)
    (folder / name).mkdir()
    with pytest.raises(SapoError, match="has no "):
        digest_of_folder(folder)


def test_the_base_is_found_among_others(folder, tmp_path):
    other, empty = bare_base(tmp_path / "other"), tmp_path / "empty"
    empty.mkdir()
    places = [tmp_path / "missing", empty, other, folder]
    assert find_base(rule(digest_of_folder(folder)), places) == folder


def test_a_base_of_a_spec_by_its_files_or_its_id(folder, tmp_path):
    digest = digest_of_folder(folder)
    spec = spec_of(rule(bytes(32)), rule(digest, id="mine"))
    assert base_in(spec, folder, None).id == "mine"
    assert base_in(spec, folder, "tiny").digest == bytes(32), "an id is taken at its word"
    with pytest.raises(UsageError, match=r"no base 'gpt'; choose one of: tiny \(0x0000.*\), mine \(0x"):
        base_in(spec, folder, "gpt")
    with pytest.raises(UsageError, match="several bases of the spec; say which with --base: mine, yours"):
        base_in(spec_of(rule(digest, id="mine"), rule(digest, id="yours")), folder, None)
    with pytest.raises(BaseMissingError, match="holds no base of the network's spec, which has: tiny"):
        base_in(spec_of(rule(bytes(32))), folder, None)


def test_what_was_looked_at_is_named(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    missing = tmp_path / "missing"
    with pytest.raises(BaseMissingError) as caught:
        find_base(rule(b"\xab" * 32), [missing, tmp_path / "empty", folder])
    words = str(caught.value)
    assert "base tiny with digest 0xabab" in words
    assert "--base-folder" in words
    assert f"{missing} (no such folder)" in words
    assert f"{tmp_path / 'empty'} does not load as a model: it has neither model.safetensors nor" in words
    assert f"{folder} (digest 0x{digest_of_folder(folder).hex()[:10]}…)" in words
    with pytest.raises(BaseMissingError, match="Looked at: nothing"):
        find_base(rule(b"\xab" * 32), [])


# --- tokenizers ------------------------------------------------------------------------------------------------------


@pytest.fixture
def byte_level(tmp_path):
    """One token for each byte, as byte-level BPE has it, then two special ones."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = RustTokenizer(models.BPE({character: i for i, character in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<eos>", "<pad>"])
    made.enable_padding(pad_id=257, pad_token="<pad>", length=64)
    made.enable_truncation(2)
    made.save(str(tmp_path / "tokenizer.json"))
    return Tokenizer(tmp_path), made


def ids(rust, text):
    rust.no_padding()
    rust.no_truncation()
    return rust.encode(text, add_special_tokens=False).ids


def test_decode_skips_nothing_and_cleans_nothing_up(byte_level):
    tokenizer, rust = byte_level
    text = " 6 ,  7 . do n't\n\t é€😀 "
    assert tokenizer.decode(ids(rust, text)) == text
    assert tokenizer.decode([256, *ids(rust, "6"), 256, 257, 256]) == "<eos>6<eos><pad><eos>"
    assert tokenizer.decode([]) == ""
    assert tokenizer.size() == 258


def test_invalid_utf8_becomes_replacement_characters(byte_level):
    tokenizer, rust = byte_level
    euro = ids(rust, "€")
    assert len(euro) == 3
    assert tokenizer.decode(euro[:2]) == "\ufffd"
    assert tokenizer.decode([*ids(rust, "a"), euro[1], *ids(rust, "b")]) == "a\ufffdb"
    assert tokenizer.decode([euro[0], euro[0]]) == "\ufffd\ufffd"


def test_max_token_bytes_counts_json_escapes(byte_level):
    tokenizer, _ = byte_level
    assert tokenizer.max_token_bytes() == len("\\u0000")


def test_max_token_bytes_counts_the_space_that_a_beginning_drops(tmp_path):
    made = RustTokenizer(models.WordLevel({"▁a": 0, "▁long": 1, "!": 2}, "!"))
    made.decoder = decoders.Metaspace()
    made.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer(tmp_path)
    assert tokenizer.decode([1]) == "long"
    assert tokenizer.decode([0, 1]) == "a long"
    assert tokenizer.max_token_bytes() == len(" long")


@pytest.mark.parametrize("seed", range(5))
def test_no_text_is_longer_than_its_tokens_allow(byte_level, seed):
    import random

    tokenizer, _ = byte_level
    drawn = [random.Random(seed).randrange(tokenizer.size()) for _ in range(200)]
    text = json.dumps(tokenizer.decode(drawn), ensure_ascii=False)
    assert len(text.encode()) - 2 <= 200 * tokenizer.max_token_bytes()


def test_a_base_without_tokenizer_is_refused(tmp_path):
    with pytest.raises(SapoError, match=r"no tokenizer\.json"):
        Tokenizer(tmp_path)


def test_a_base_is_looked_for_once_and_again_while_it_is_missing(folder, tmp_path):
    bases = Bases([tmp_path / "elsewhere", folder])
    wanted = rule(digest_of_folder(folder))
    kept = (folder / "config.json").read_bytes()
    (folder / "config.json").unlink()
    with pytest.raises(BaseMissingError):
        bases.folder(wanted)
    (folder / "config.json").write_bytes(kept)
    assert bases.folder(wanted) == folder
    (folder / "config.json").unlink()
    assert bases.folder(wanted) == folder
    (folder / "tokenizer.json").unlink()
    with pytest.raises(SapoError, match=r"no tokenizer\.json"):
        bases.tokenizer(wanted)
