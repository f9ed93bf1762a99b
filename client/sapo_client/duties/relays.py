"""drand's signatures from HTTP relays, the first that has the right one. None is believed: the contract judges.

Anybody can run a relay, and a signature is the only one of its round; so a bad relay costs its time and nothing else.
"""

import json
from collections.abc import Callable, Sequence

from sapo_verifier import net
from sapo_verifier.bls12381 import G1_BYTES, PointError, g1_of
from sapo_verifier.chain.errors import mask_url
from sapo_verifier.drand import Drand, quicknet
from sapo_verifier.errors import SapoError

ANSWER_BYTES = 4096
ANSWER_SECONDS = 5.0
NOT_THERE = (404, 425)  # how relays say that a round is not signed yet
PATHS = ("{chain}/public/{round}", "v2/chains/{chain}/rounds/{round}")  # some relays know one of the two only
PUBLIC = ("https://api.drand.sh", "https://api2.drand.sh", "https://api3.drand.sh", "https://drand.cloudflare.com")


class RelayError(SapoError):
    """What a relay answered is no signature, or it did not answer."""


def relays_of(named: Sequence[str], drand: Drand) -> tuple[str, ...]:
    """named: those of the settings; where there are none, and the network is quicknet, the public ones."""
    if named or drand.chain_hash != quicknet().chain_hash:
        return tuple(named)
    return PUBLIC


class Relays:
    """Of one node. say: to the operator, what is wrong with one of them."""

    def __init__(self, urls: Sequence[str], drand: Drand, say: Callable[[str], None]) -> None:
        self._urls = [url.rstrip("/") for url in urls]
        self._chain = drand.chain_hash.hex()
        self._say = say

    def signature(self, drand_round: int, refusal: Callable[[bytes], str]) -> bytes | None:
        """The 128 bytes of a round's signature; None where no relay has it (yet).

        refusal: why the contract does not take a signature; "": it does. Takes ten seconds for each relay at most.
        """
        for url in self._urls:
            try:
                found = asked(url, self._chain, drand_round)
                words = refusal(found) if found is not None else ""
            except RelayError as error:
                self._say(f"{error}; the next relay is asked")
                continue
            if found is not None and not words:
                return found
            if words:
                self._say(f"the drand relay {mask_url(url)} gave what the contract refuses: {words}")
        return None


def asked(url: str, chain: str, drand_round: int) -> bytes | None:
    """What one relay says is a round's signature: 128 bytes; None where it says that there is none yet.

    url: without a slash at its end. chain: its hash, hex. Raises RelayError, in words, for everything else.
    """
    where, statuses = f"the drand relay {mask_url(url)}", []
    for path in PATHS:
        request = net.Request(
            "GET", f"{url}/{path.format(chain=chain, round=drand_round)}", ANSWER_BYTES, ANSWER_SECONDS,
            statuses=range(200, 201),
        )  # fmt: skip
        client = net.Client()
        try:
            answer = client.exchange(request)
        except net.NetError as error:
            raise RelayError(f"{where} does not answer: {error}") from None
        finally:
            client.close()
        if answer.status == 200:
            return _signature(answer.body, drand_round, where)
        statuses.append(answer.status)
    if any(status in NOT_THERE for status in statuses):
        return None
    raise RelayError(f"{where} answers with HTTP {statuses[0]}")


def _signature(body: bytes, drand_round: int, where: str) -> bytes:
    try:
        document = json.loads(body)
        told, text = document["round"], document["signature"]
        if not isinstance(text, str) or len(text) != 2 * G1_BYTES:
            raise RelayError(f"{where} gave a signature that has not {G1_BYTES} bytes")
        if told != drand_round:
            raise RelayError(f"{where} gave another round than the one that was asked for")
        return g1_of(bytes.fromhex(text))
    except PointError as error:
        raise RelayError(f"{where} gave a signature that is {error}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RelayError(f"{where} gave something else than a round of drand") from None
