"""A base is its files: the digest sees each of them, and the tokenizer skips nothing."""

import hashlib
import json

import pytest
from tokenizers import Tokenizer as RustTokenizer
from tokenizers import decoders, models, pre_tokenizers

from sapo_devnet.testkit.networks import small_spec
from sapo_verifier.bases import BaseMissingError, Bases, Tokenizer, base_in, digest_of_folder, find_base
from sapo_verifier.errors import SapoError, UsageError
from sapo_verifier.spec import BaseRule


def rule(digest, id="tiny"):
    return BaseRule(
        id=id, digest=digest, vocab=10, eos=[0], context=64, template="compact", max_token_bytes=4,
        max_adapter_bytes=1, max_rank=0,
    )  # fmt: skip


def spec_of(*bases):
    return small_spec(bases=[base.model_dump(mode="json") | {"max_token_bytes": 24} for base in bases])


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "base"
    (made / "deep").mkdir(parents=True)
    (made / "config.json").write_bytes(b"{}")
    (made / "deep" / "weights").write_bytes(b"abc")
    return made


def test_the_digest_is_that_of_the_canonical_list_of_files(folder):
    empty, weights = hashlib.sha256(b"{}").hexdigest(), hashlib.sha256(b"abc").hexdigest()
    listed = f'{{"config.json":"0x{empty}","deep/weights":"0x{weights}"}}'
    assert digest_of_folder(folder) == hashlib.sha256(listed.encode()).digest()


def change_a_byte(folder):
    (folder / "deep" / "weights").write_bytes(b"abd")


def rename(folder):
    (folder / "config.json").rename(folder / "config2.json")


def move(folder):
    (folder / "deep" / "weights").rename(folder / "weights")


def add(folder):
    (folder / "more").write_bytes(b"")


def remove(folder):
    (folder / "config.json").unlink()


def swap(folder):
    (folder / "config.json").write_bytes(b"abc")
    (folder / "deep" / "weights").write_bytes(b"{}")


@pytest.mark.parametrize("change", [change_a_byte, rename, move, add, remove, swap])
def test_the_digest_changes_with(folder, change):
    before = digest_of_folder(folder)
    change(folder)
    assert digest_of_folder(folder) != before


def test_hidden_files_and_empty_folders_do_not_count(folder):
    before = digest_of_folder(folder)
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("x")
    (folder / ".cache").write_text("x")
    (folder / "deep" / ".lock").write_text("x")
    (folder / "empty").mkdir()
    assert digest_of_folder(folder) == before


def test_a_hidden_parent_does_not_hide_the_base(folder, tmp_path):
    before = digest_of_folder(folder)
    (tmp_path / ".models").mkdir()
    assert digest_of_folder(folder.rename(tmp_path / ".models" / "base")) == before


def test_links_to_files_are_files(folder, tmp_path):
    before = digest_of_folder(folder)
    (tmp_path / "elsewhere").write_bytes(b"{}")
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to(tmp_path / "elsewhere")
    assert digest_of_folder(folder) == before


def test_a_folder_without_files_is_no_base(tmp_path):
    with pytest.raises(SapoError, match="holds no files"):
        digest_of_folder(tmp_path)


def test_the_base_is_found_among_others(folder, tmp_path):
    other, empty = tmp_path / "other", tmp_path / "empty"
    for made in (other, empty):
        made.mkdir()
    (other / "file").write_text("x")
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
    assert f"{tmp_path / 'empty'} (no files)" in words
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
    with pytest.raises(SapoError, match=r"no tokenizer\.json"):
        bases.tokenizer(wanted)
