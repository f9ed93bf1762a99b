"""The node's own IPFS daemon, and whether somebody else's gateway gets a block of this node."""

from pathlib import Path
from urllib.parse import urlsplit

from sapo_client.state.settings import IpfsSettings
from sapo_verifier import net
from sapo_verifier.cid import BLOCK_LIMIT, block_digest, cid
from sapo_verifier.errors import UsageError
from sapo_verifier.ipfs import DaemonAway, StoreFailed, parse_endpoint
from sapo_verifier.ipfs.gateway import RAW
from sapo_verifier.ipfs.kubo_client import KuboClient

_REMEDY = {
    "embedded": "The node starts it again; if that does not help, start the node again",
    "external": "It is not the node's own ([ipfs] daemon), which waits for it",
}


def daemon_reasons(ipfs: IpfsSettings, home: Path, seconds: float) -> list[str]:
    """Whether the node's daemon answers as one; each try may take `seconds`. Raises UsageError for a bad
    api_auth_file."""
    client = KuboClient(ipfs.api, timeout=seconds, credentials=ipfs.credentials(home))
    try:
        client.stat()
    except StoreFailed as error:
        remedy = f". {_REMEDY[ipfs.daemon]}" if isinstance(error, DaemonAway) else ""
        return [f"peers cannot fetch this node's blocks: {error}{remedy}"]
    finally:
        client.close()
    return []


def probe(url: str, digest: bytes, own_endpoint: str, seconds: float) -> tuple[bool, str]:
    """Whether the gateway at `url`, which is somebody else's, gives the block with this digest; and that in words.

    Raises UsageError for a URL that is none, or this node's own.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url[:200]} is no gateway's URL: give http:// or https://, and a host")
    own = parse_endpoint(own_endpoint, allow_private=True)
    if parts.hostname.lower() == own.host.lower():
        raise UsageError(
            f"{parts.hostname} is where this node serves its blocks itself; name a gateway of somebody else, who has "
            "to get them from outside"
        )
    name = cid(digest)
    request = net.Request(
        "GET",
        f"{url.rstrip('/')}/ipfs/{name}?format=raw",
        BLOCK_LIMIT,
        seconds,
        {"Accept": RAW},
        statuses=range(200, 201),
    )
    client = net.Client()
    try:
        answer = client.exchange(request)
    except net.NetError as error:
        return False, f"{parts.hostname} did not give {name}: {ascii(str(error))[1:-1][:160]}"
    finally:
        client.close()
    if answer.status != 200:
        return False, f"{parts.hostname} did not give {name}: it answered {answer.status}"
    if block_digest(answer.body) != digest:
        return False, f"{parts.hostname} gave bytes that are not {name}"
    return True, f"{parts.hostname} got {name} of this node"
