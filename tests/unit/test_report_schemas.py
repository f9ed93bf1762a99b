"""The JSON Schemas that the package brings, and the sentences for what contracts announce."""

import pytest

from sapo_verifier.chain.contracts import abi, abi_names
from sapo_verifier.chain.event_words import AMOUNTS, BLOCKS, NAMES, WORDS, words_of
from sapo_verifier.chain.events import ChainEvent
from sapo_verifier.schedule import NO_BATCH
from sapo_verifier.schemas import REPORTS, text_of
from schemas import assert_fits, schema

EVENTS = {
    entry["name"]: entry
    for name in abi_names()
    if name != "SapoToken"
    for entry in abi(name)
    if entry["type"] == "event"
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_schema_is_what_the_types_say(name: str) -> None:
    from importlib import resources

    file = resources.files("sapo_verifier.schemas") / f"{name}.json"
    assert file.read_text() == text_of(name), "run python -m sapo_verifier.schemas"


def test_what_does_not_fit_is_seen() -> None:
    assert_fits("error", {"error": "words", "status": 3})
    for wrong in ({"error": "words"}, {"error": "words", "status": "3"}, {"error": "w", "status": 3, "more": 1}):
        with pytest.raises(AssertionError):
            assert_fits("error", wrong)
    assert schema("round")["title"] == "RoundReport"


def test_every_event_has_a_sentence_and_no_other() -> None:
    assert EVENTS.keys() == WORDS.keys()
    names = {given["name"] for entry in EVENTS.values() for given in entry["inputs"]}
    assert names >= AMOUNTS | BLOCKS | NAMES.keys()


@pytest.mark.parametrize("name", EVENTS)
def test_a_sentence_takes_any_value(name: str) -> None:
    """Also a peer's endpoint that would move a terminal's cursor."""
    kinds = {"address": "0x" + "ab" * 20, "bytes32": bytes(32), "bytes": b"", "string": "\x1b[2J\u202e", "bool": True}
    for number in (0, NO_BATCH):
        args = {given["name"]: kinds.get(given["type"], number) for given in EVENTS[name]["inputs"]}
        said = words_of(ChainEvent(name, "x", args, 1, bytes(32), 0))
        assert said.isprintable()
        assert "{" not in said
