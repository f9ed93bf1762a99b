"""A daemon's RPC as operators have it: with credentials, behind a proxy, moved, or another program altogether."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from sapo_devnet.testkit.hostile_http import answer, hostile
from sapo_devnet.testkit.ipfs_daemon import Daemon, ipfs_daemon
from sapo_devnet.testkit.ipfs_proxy import IpfsProxy, ipfs_proxy
from sapo_verifier.cid import block_digest
from sapo_verifier.errors import UsageError
from sapo_verifier.ipfs import BlockStore, DaemonAway, StoreFailed, read_credentials

BASIC = "Basic bWU6cDpzc8O8"  # me:p:ssü
BEARER = "Bearer s3cret-token.of/mine=="


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with ipfs_daemon(tmp_path_factory.mktemp("daemon")) as running:
        yield running


@pytest.fixture
def proxy(daemon: Daemon) -> Iterator[IpfsProxy]:
    with ipfs_proxy(daemon.api_url) as running:
        yield running


def secret(folder: Path, text: str) -> Path:
    file = folder / "ipfs-auth"
    file.write_text(text)
    file.chmod(0o400)
    return file


def stat_of(proxy: IpfsProxy, file: Path | None = None) -> object:
    credentials = read_credentials(file) if file else None
    with BlockStore(proxy.api, allow_private=True, timeout=5.0, credentials=credentials) as store:
        return store.stat()


@pytest.mark.parametrize(
    ("line", "header"),
    [("me:p:ssü\n", BASIC), ("bearer s3cret-token.of/mine==\nanother line\n", BEARER), ("Bearer  a.b", "Bearer a.b")],
)
def test_a_user_or_a_token_from_a_file_opens_every_command(
    proxy: IpfsProxy, tmp_path: Path, line: str, header: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    proxy.wants = header
    credentials = read_credentials(secret(tmp_path, line))
    with BlockStore(proxy.api, allow_private=True, credentials=credentials) as store:
        digest = store.put(header.encode())
        assert store.has(digest)
        assert store.get(digest) == header.encode()
        store.unpin(digest)
        assert store.collect() == 1
        assert not store.has(digest)
        assert store.stat()["NumObjects"] == 0
        with pytest.raises(StoreFailed):
            store.connect("/ip4/127.0.0.1/tcp/1/http")
    assert {shown for _, shown in proxy.asked} == {header}
    commands = {"block/put", "block/get", "block/stat", "pin/rm", "repo/gc", "repo/stat", "swarm/connect"}
    assert {command for command, _ in proxy.asked} == commands
    for told in (caplog.text, repr(credentials)):
        assert header.split()[1] not in told
        assert "s3cret" not in told


@pytest.mark.parametrize("line", ["", "me", ":word", "bearer", "bearer two words", "basic:me:word", "Bearer:token"])
def test_a_file_that_holds_neither_is_refused_without_showing_it(tmp_path: Path, line: str) -> None:
    with pytest.raises(UsageError, match="`user:password` or `bearer TOKEN`") as caught:
        read_credentials(secret(tmp_path, line))
    assert "word" not in str(caught.value).replace("password", "")


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = secret(tmp_path, "me:word")
    file.chmod(0o644)
    with pytest.raises(UsageError, match="chmod 400"):
        read_credentials(file)
    with pytest.raises(UsageError, match="there is no file of the IPFS API's credentials"):
        read_credentials(tmp_path / "none")


def test_a_refusal_says_which_setting_and_which_of_kubos(proxy: IpfsProxy, tmp_path: Path) -> None:
    proxy.wants = BASIC
    with pytest.raises(StoreFailed, match=r"answered 403 to repo/stat.*\[ipfs\] api_auth_file"):
        stat_of(proxy)
    with pytest.raises(StoreFailed, match=r"does not take the credentials of .*ipfs-auth.*AllowedPaths"):
        stat_of(proxy, secret(tmp_path, "me:wrong"))
    assert len(proxy.asked) == 2, "a refusal is not asked again"
    (tmp_path / "right").mkdir()
    proxy.allowed = ("repo/stat",)
    with BlockStore(
        proxy.api, allow_private=True, credentials=read_credentials(secret(tmp_path / "right", "me:p:ssü"))
    ) as store:
        store.stat()
        with pytest.raises(StoreFailed, match="which has to have /api/v0/block/put"):
            store.put(b"x")
    proxy.instead = (401, {"WWW-Authenticate": "Basic", "Content-Type": "application/json"}, b'{"Message": "no"}')
    with pytest.raises(StoreFailed, match="answered 401"):
        stat_of(proxy)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_told_and_not_followed(proxy: IpfsProxy, daemon: Daemon, tmp_path: Path, status: int) -> None:
    with ipfs_proxy(daemon.api_url) as elsewhere:
        target = f"{elsewhere.url}/api/v0/repo/stat\x1b"
        proxy.instead = (status, {"Location": target}, b"")
        with pytest.raises(StoreFailed, match=rf"answered {status}.*a redirect to '{elsewhere.url}.*\\x1b'"):
            stat_of(proxy, secret(tmp_path, "me:word"))
        assert not elsewhere.asked, "credentials went elsewhere"


OTHERS = [
    ((200, {"Content-Type": "text/html"}, b"<html>\x1b[31m<h1>Router</h1>" + b"x" * 10_000), r"'<html>\\x1b\[31m<h1>"),
    ((200, {"Content-Type": "application/json"}, b'{"jsonrpc": "2.0", "id": 1}'), '"jsonrpc"'),
    ((200, {"Content-Type": "application/json"}, b"[1, 2]"), r"\[1, 2\]"),
    ((200, {"Content-Type": "application/json"}, b'{"Key": 3}{"Key": 4}'), r'\{"Key": 3\}'),
    ((200, {}, b""), "but with nothing"),
    ((200, {"Content-Encoding": "gzip"}, b"not gzip"), "does not answer"),
    ((404, {"Content-Type": "text/plain"}, b"404 page not found\n"), "status 404 beginning with '404 page not found"),
    ((500, {"Content-Type": "text/plain"}, b"oops"), "status 500 beginning with 'oops'"),
    ((405, {"Content-Type": "application/json"}, json.dumps({"error": "unknown method"}).encode()), "does not answer"),
]


@pytest.mark.parametrize(("instead", "words"), OTHERS)
def test_another_programs_answer_is_shown_in_part(
    proxy: IpfsProxy, instead: tuple[int, dict[str, str], bytes], words: str
) -> None:
    proxy.instead = instead
    digest = block_digest(b"what is asked for")
    with BlockStore(proxy.api, allow_private=True, timeout=5.0) as store:
        actions = (store.stat, lambda: store.put(b"x"), lambda: store.has(digest))
        for action in actions:
            with pytest.raises(StoreFailed, match=words) as caught:
                action()
            assert str(caught.value).isprintable()
            assert len(str(caught.value)) < 500
        with pytest.raises(StoreFailed):
            store.get(digest)


def test_a_daemon_that_stores_under_another_name_is_no_kubo_of_today(proxy: IpfsProxy) -> None:
    proxy.instead = (200, {"Content-Type": "application/json"}, b'{"Key": "Qm\\u001b", "Size": 1}')
    with (
        BlockStore(proxy.api, allow_private=True) as store,
        pytest.raises(StoreFailed, match=r"under 'Qm\\x1b'; is this Kubo"),
    ):
        store.put(b"x")


def test_an_answer_without_an_end_is_cut_off() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"

    def endless(connection: object, over: object) -> None:
        connection.sendall(head)  # type: ignore[attr-defined]
        while not over.is_set():  # type: ignore[attr-defined]
            connection.sendall(b" " * (1 << 20))  # type: ignore[attr-defined]

    with (
        hostile(endless) as server,
        BlockStore(server.endpoint(), allow_private=True, timeout=5.0) as store,
        pytest.raises(StoreFailed, match="with more than"),
    ):
        store.stat()


def test_only_what_may_come_back_is_an_absence(proxy: IpfsProxy) -> None:
    """A proxy whose daemon is down, and one that cuts its answers; not a refusal."""
    proxy.instead = (502, {"Content-Type": "text/html"}, b"<h1>Bad Gateway</h1>")
    with pytest.raises(DaemonAway, match="is it running"):
        stat_of(proxy)
    with (
        hostile(answer(b"{", length=10)) as server,
        BlockStore(server.endpoint(), allow_private=True) as store,
        pytest.raises(DaemonAway),
    ):
        store.stat()
    proxy.instead, proxy.wants = None, BASIC
    with pytest.raises(StoreFailed) as caught:
        stat_of(proxy)
    assert not isinstance(caught.value, DaemonAway)
