"""Connections to a chain's RPC: bounded retries for reads, none for sends, and no URL with its secrets in a log."""

import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from web3 import Web3
from web3.exceptions import BadResponseFormat, BlockNotFound, ContractLogicError, TooManyRequests, Web3RPCError
from web3.providers.base import JSONBaseProvider
from web3.types import RPCEndpoint, RPCResponse

from sapo_verifier import net
from sapo_verifier.chain import answers
from sapo_verifier.chain.errors import (
    ChainError,
    ChainUnavailable,
    HttpRefused,
    Refused,
    RpcUrlError,
    explain,
    explain_rpc_error,
    is_passing,
    mask_url,
)

TIMEOUT_SECONDS = 20.0
TRIES = 3  # of a read, in all, where the connection fails
PAUSE_SECONDS = 0.1  # before the second try, and twice as long before each further one
MAX_ANSWER_BYTES = 8 << 20  # parsed JSON takes about thirty times as much; logs are asked for in chunks
_HEADERS = {"Content-Type": "application/json"}
BATCH = 50  # calls in one HTTP request; several public providers refuse more than 100
CAPPING = (400, 413, 429, 500)  # HTTP statuses that a batch is answered with where it is too large

# Only what reads: a send that is repeated blindly can be a second transaction.
READS = (
    "eth_blockNumber",
    "eth_call",
    "eth_chainId",
    "eth_estimateGas",
    "eth_feeHistory",
    "eth_getBalance",
    "eth_getBlockByHash",
    "eth_getBlockByNumber",
    "eth_getCode",
    "eth_getLogs",
    "eth_getProof",
    "eth_getTransactionByHash",
    "eth_getTransactionCount",
    "eth_getTransactionReceipt",
    "eth_maxPriorityFeePerGas",
)


T = TypeVar("T")


class Provider(JSONBaseProvider):
    """What Web3 asks: one RPC (QuietProvider), or the one of several that is well (failover.Failover).

    Its logs do not hold the URL: web3's own writes it, keys and all, at debug level.
    """

    logger = logging.Logger("sapo.rpc", logging.CRITICAL)
    global_ccip_read_enabled = False  # an answer could send us to any URL (EIP-3668)
    url: str  # of the RPC that is asked now

    def ask(self, question: "Callable[[QuietProvider], T]") -> T:
        """What one RPC answers to requests that belong together. Raises what they raise."""
        raise NotImplementedError

    def close(self) -> None:
        """Closes the connections."""
        raise NotImplementedError


class QuietProvider(Provider):
    """One RPC. The exchanges are bounded (net), and the answers have the shapes that they should have (answers.py).

    What only reads is tried `tries` times in all where the connection fails. Raises RpcUrlError for what is no URL.
    """

    def __init__(self, url: str, timeout: float, tries: int) -> None:
        if not re.match(r"https?://[^/?#:]", shown := mask_url(url)):
            raise RpcUrlError(f"{shown} is no RPC URL: it must be http:// or https://, a host, and a port up to 65535")
        super().__init__()
        self.tries = tries
        self.most_calls = BATCH  # in one HTTP request, as far as is known
        self.url = url
        self._timeout = timeout
        self._client = net.Client()

    def ask(self, question: "Callable[[QuietProvider], T]") -> T:
        return question(self)

    def close(self) -> None:
        self._client.close()

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        id_ = self._next_id()
        body = self._post(self.encode_rpc_request(method, params), self.tries if method in READS else 1)
        answer = answers.one(answers.parse(body), method, id_)
        # Of logs such an error mostly means that too many were asked for, which events.py sees to.
        if method in READS and method != "eth_getLogs" and "error" in answer and is_passing(answer["error"]):
            raise NotNow(explain_rpc_error(answer["error"]))
        return cast(RPCResponse, answer)

    def make_batch_request(self, requests: list[tuple[RPCEndpoint, Any]]) -> list[RPCResponse] | RPCResponse:
        """Several reads at once."""
        first_id = self._next_id()
        body = self._post(self.encode_batch_rpc_request(requests), self.tries)
        found = answers.many(answers.parse(body), [method for method, _ in requests], first_id)
        return cast("list[RPCResponse] | RPCResponse", found)

    def _post(self, data: bytes, tries: int) -> bytes:
        for tried in range(tries - 1):
            try:
                return self._exchange(data)
            except (net.NoConnection, net.TooSlow, net.Malformed):
                time.sleep(PAUSE_SECONDS * 2**tried)
        return self._exchange(data)

    def _exchange(self, data: bytes) -> bytes:
        request = net.Request("POST", self.url, MAX_ANSWER_BYTES, self._timeout, _HEADERS, data)
        answer = self._client.exchange(request)
        if answer.status not in request.statuses:
            raise BadStatus(answer.status)
        return answer.body

    def _next_id(self) -> int:
        """The id that web3's encoder gives to the next request; it counts them itself."""
        return next(self.request_counter) + 1


class NotNow(net.NetError):
    """The RPC answers that it has no answer now. `transport` makes ChainUnavailable of it; who asks about old state,
    which not every RPC keeps, takes it for an answer."""


class BadStatus(net.NetError):
    """An HTTP error."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"status {status}")


class NoneAnswers(net.NetError):
    """Every one of several RPCs failed; the message names each, with its reason."""


class NoneAnswersNow(NoneAnswers, NotNow):
    """The same, and at least one of them says that it has no answer now."""


def connect(url: str, *, retries: int = TRIES, timeout: float = TIMEOUT_SECONDS) -> Web3:
    """For reads: tried `retries` times in all where the connection fails, 0.1 and 0.2 s apart. `timeout` in seconds."""
    return web3_over(QuietProvider(url, timeout, retries))


def connect_for_sending(url: str, *, timeout: float = TIMEOUT_SECONDS) -> Web3:
    """Nothing is ever sent twice by the library: web3 by default repeats eth_sendRawTransaction."""
    return web3_over(QuietProvider(url, timeout, 1))


def web3_over(provider: Provider) -> Web3:
    """No middleware: web3's own asks for the chain id before every single call, and looks names up."""
    return Web3(provider, middleware=[])


def provider_of(w3: Web3) -> Provider:
    """What the functions above gave to it."""
    assert isinstance(w3.provider, Provider)
    return w3.provider


@contextmanager
def transport(url: str) -> Iterator[None]:
    """Failures of the connection become ChainUnavailable, other answers that nobody handled inside ChainError."""
    where = f"the chain's RPC at {mask_url(url)}"
    try:
        yield
    except NoneAnswers as error:
        raise ChainUnavailable(str(error)) from None
    except (BadStatus, net.TooLarge) as error:
        # What is too large as an HTTP status, so that logs are asked for in smaller pieces.
        status = error.status if isinstance(error, BadStatus) else 413
        raise HttpRefused(f"{where} {''.join(failure(error))}", status) from None
    except (net.NetError, BadResponseFormat) as error:
        raise ChainUnavailable(f"{where} {''.join(failure(error))}") from None
    except TooManyRequests:
        raise ChainUnavailable(f"{where} asks for fewer requests; try again later") from None
    except (ContractLogicError, Web3RPCError) as error:
        raise ChainError(explain(error)) from error
    except BlockNotFound:
        raise ChainUnavailable(f"{where} does not know a block that it should; try again") from None


def failure(error: Exception) -> tuple[str, str]:
    """What an RPC did, in words that follow its name, and what to do. error: net's, or BadResponseFormat."""
    if isinstance(error, BadStatus):
        hints = {401: "is the key in the URL right?", 403: "is the key in the URL right?", 429: "too many requests"}
        moved = "it redirects, which is not followed; give the URL that it redirects to"
        other = "try again, or use another RPC"
        return f"answered HTTP {error.status}", ": " + (
            moved if 300 <= error.status < 400 else hints.get(error.status, other)
        )
    if isinstance(error, net.TooSlow):
        return "did not answer in time", "; try again, or use another RPC"
    if isinstance(error, net.TooLarge):
        return f"answers with more than {MAX_ANSWER_BYTES} bytes", "; use another RPC"
    if isinstance(error, net.Compressed | BadResponseFormat):
        return f"is no Ethereum RPC ({str(error)[:200]})", "; point --rpc at one"
    if isinstance(error, NotNow):
        return f"has no answer now: {error}", ""
    refused = isinstance(error, net.NoConnection) and error.refused
    reason = "refuses the connection" if refused else "cannot be reached"
    return reason, ": is it running? Start it, or point --rpc at one that is"


def batch(w3: Web3, requests_: Sequence[tuple[str, Any]]) -> list[Any]:
    """The results of several reads in few HTTP requests, in order, all from one RPC. Raises as `read_many` does."""
    return provider_of(w3).ask(lambda one: read_many(one, requests_))


def read_many(provider: QuietProvider, requests_: Sequence[tuple[str, Any]]) -> list[Any]:
    """The results of several reads, in order.

    Providers cap batches, and say so in many ways: with an HTTP status, one error instead of a list, an error for each
    call or for the last ones. So what a batch could not have is asked for in halves, and at last alone; how many calls
    are taken at a time is remembered, until one alone is refused as well. Raises Refused where the RPC refuses one of
    them, and net's errors as single reads do.
    """
    results: list[Any] = []
    while len(results) < len(requests_):
        part = requests_[len(results) : len(results) + provider.most_calls]
        if len(part) == 1:
            results.append(_alone(provider, *part[0]))
        elif (found := _together(provider, part)) is not None:
            results += found
        else:
            provider.most_calls = len(part) // 2
    return results


def _together(provider: QuietProvider, part: Sequence[tuple[str, Any]]) -> list[Any] | None:
    """None if these are too many for the provider, or seem to be."""
    try:
        found = provider.make_batch_request([(RPCEndpoint(method), params) for method, params in part])
    except BadStatus as error:
        if error.status in CAPPING:
            return None
        raise
    except (net.TooLarge, BadResponseFormat):
        return None
    if not isinstance(found, list):
        return None
    had = sum("result" in answer for answer in found)
    if 2 * had < len(found):
        return None
    results = [
        _alone(provider, *asked) if "error" in answer else answer["result"]
        for asked, answer in zip(part, found, strict=True)
    ]
    provider.most_calls = had if had < len(found) else provider.most_calls
    return results


def _alone(provider: QuietProvider, method: str, params: Any) -> Any:
    try:
        return _result(method, provider.make_request(RPCEndpoint(method), params))
    except (net.NetError, BadResponseFormat, Refused):
        provider.most_calls = BATCH  # it was not their number
        raise


def single(w3: Web3, method: str, params: Any) -> Any:
    """One read as the RPC gives it, undecoded. Raises as `batch` does."""
    return _result(method, cast(JSONBaseProvider, w3.provider).make_request(RPCEndpoint(method), params))


def _result(method: str, answer: RPCResponse) -> Any:
    if "error" in answer:
        raise Refused(method, answer["error"])
    return answer["result"]


def close(w3: Web3) -> None:
    """Closes the connections that `connect` keeps open."""
    provider_of(w3).close()
