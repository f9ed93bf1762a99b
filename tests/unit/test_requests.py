"""What is asked of a node, beside what the chain does with it: a setting that a command changes, times in words."""

from pathlib import Path

import pytest

from sapo_client.duties.leaving import rough
from sapo_client.state.requests import KEPT, RequestBook, read_requests
from sapo_client.state.settings_file import change_setting
from sapo_verifier.chain.contracts import Call
from sapo_verifier.errors import UsageError

NEW = "/dns4/new/tcp/1/http"
LINE = f'endpoint = "{NEW}"'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('[ipfs]\nendpoint = "/old" # mine\n[sapo]\n', f"[ipfs]\n{LINE} # mine\n[sapo]\n"),
        ("# top\n[ ipfs ] # of the daemon\n  endpoint='/old'", f"# top\n[ ipfs ] # of the daemon\n  {LINE}"),
        ('[ipfs]\n# endpoint = "/old"\napi = "/x"\n', f'[ipfs]\n{LINE}\n# endpoint = "/old"\napi = "/x"\n'),
        ('[sapo]\nseed = 1\nendpoint_ = "x"\n', f'[sapo]\nseed = 1\nendpoint_ = "x"\n\n[ipfs]\n{LINE}\n'),
        ("[ipfs]", f"[ipfs]\n{LINE}\n"),
        (f"[ipfs]\n{LINE.replace(' = ', '=')}\n", None),
    ],
)
def test_one_setting_is_changed_and_all_else_stays(tmp_path: Path, before: str, after: str | None) -> None:
    (tmp_path / "node.toml").write_text(before)
    assert change_setting(tmp_path, "ipfs", "endpoint", NEW) is (after is not None)
    assert (tmp_path / "node.toml").read_text() == (before if after is None else after)


@pytest.mark.parametrize(
    "before", ['ipfs.endpoint = "/old"\n', 'ipfs = { endpoint = "/old" }\n', '[ipfs]\nendpoint = """/old"""\n']
)
def test_what_cannot_be_changed_safely_is_left_and_said(tmp_path: Path, before: str) -> None:
    (tmp_path / "node.toml").write_text(before)
    with pytest.raises(UsageError, match=r"write `endpoint = .* under \[ipfs\]"):
        change_setting(tmp_path, "ipfs", "endpoint", NEW)
    assert (tmp_path / "node.toml").read_text() == before


def test_requests_are_in_order_and_the_settled_ones_of_late_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "requests.sqlite"
    assert read_requests(path) == (None, [], False)
    book, call = RequestBook(path), Call("nodes", "requestExit")
    first = book.ask("exit", "life/", call, 0, "")
    assert first.key.startswith("life/")
    assert book.ask("exit", "life/", call, 0, "") == first
    other = RequestBook(path)  # a command beside the node
    second = other.ask("withdraw", "life/", Call("nodes", "withdraw", ("0x" + "ab" * 20,)), 0, "0x" + "ab" * 20)
    assert [request.title for request in book.open()] == ["exit", "withdraw 0x" + "ab" * 20]
    assert read_requests(path) == (None, [first, second], True)
    book.note(first, "refused", "why")
    assert other.open() == [second]
    assert other.get(first.id).words == "why"
    assert book.ask("exit", "life/", call, 0, "").id == 3, "one that is settled is not joined"
    for _ in range(KEPT):
        book.note(book.ask("top-up", "life/", call, 1, ""), "done")
    assert [request.id for request in book.open()] == [2, 3], "what is open stays however old"
    assert len(book._found("state IN ('done', 'refused')")) == KEPT
    book.close()
    other.close()
    path.write_bytes(b"no database" * 100)
    assert read_requests(path) == (None, [], False)


def test_times_in_words() -> None:
    assert [rough(s) for s in (0, 40, 119, 121, 7199, 7201, 10**6)] == [
        "0 s", "40 s", "119 s", "2 min", "120 min", "2 h", "12 days",
    ]  # fmt: skip
