"""What the commands of a node's life share: a step is asked of the running node, or sent here where none runs, or is
printed for the owner's wallet where that key is elsewhere."""

import argparse
import json
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from sapo_client.commands.options import chain_options, home_option, json_option, password_option, rpcs_of, wait_option
from sapo_verifier.commands.program import Commands, add_parser
from sapo_verifier.errors import USAGE, SapoError, UnableError

if TYPE_CHECKING:
    from sapo_client.commands.hand import Hand
    from sapo_client.duties.requests import Requests
    from sapo_client.duties.steps import Step
    from sapo_client.state.requests import Request, RequestBook
    from sapo_client.state.settings import Settings
    from sapo_verifier.chain.reader import ChainReader, NodeInfo

POLL_SECONDS = 0.3


@dataclass(frozen=True)
class Asking:
    """Who asks. key: the address of the home's key; node: the owner's."""

    home: Path
    settings: "Settings"
    key: str
    node: str

    @property
    def is_owner(self) -> bool:
        return self.key == self.node


# What the command is to do, with what the chain says of the node; None where nothing is left to do.
MakeStep: TypeAlias = "Callable[[Asking, ChainReader, NodeInfo], Step | None]"


def add_step(
    commands: Commands, name: str, words: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """A command that `ask` does, with the options that all of them have."""
    parser = add_parser(commands, name, words, run)
    home_option(parser)
    password_option(parser)
    wait_option(parser)
    chain_options(parser)
    json_option(parser)
    return parser


def ask(options: argparse.Namespace, make: MakeStep, *, before: Callable[[Asking], None] | None = None) -> int:
    """Does the step; the exit status. before: done once nothing speaks against the step, before it is stored.

    Raises SapoError with why the chain refuses it, or UnableError where it is not settled in time.
    """
    from sapo_client.state import home as layout
    from sapo_client.state.settings import Settings
    from sapo_verifier import keystore

    home = options.home.expanduser()
    settings = Settings.load(home)
    key = keystore.address_of(home / layout.KEYSTORE)
    asking = Asking(home, settings, key, settings.chain.owner or key)
    if layout.is_held(home) or not asking.is_owner:
        from sapo_verifier.chain.deployment import Deployment
        from sapo_verifier.chain.reader import open_chain

        urls = rpcs_of(options) or settings.chain.rpc_urls(home)
        with open_chain(Deployment.load(settings.chain.deployment), urls) as reader:
            step = make(asking, reader, reader.node_of(asking.node))
            if step is not None and step.owners and not asking.is_owner:
                return _for_the_owner(options, asking, reader, step, before)
            if step is None or layout.is_held(home):
                return _ask_the_node(options, asking, reader, step, before)
    return _send_here(options, asking, make, before)


def _ask_the_node(
    options: argparse.Namespace,
    asking: Asking,
    reader: "ChainReader",
    step: "Step | None",
    before: Callable[[Asking], None] | None,
) -> int:
    if step is None:
        return _nothing(options)
    _refuse(asking, reader, step)
    if before is not None:
        before(asking)
    with closing(open_book(asking.home)) as book:
        request = book.ask(step.kind, step.key, step.call, step.value, step.argument)
        deadline = time.monotonic() + options.wait
        while not (request := book.get(request.id)).settled and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
    return _tell(options, asking, request)


def _send_here(
    options: argparse.Namespace, asking: Asking, make: MakeStep, before: Callable[[Asking], None] | None
) -> int:
    """As the node does it, by the same outbox; what an earlier command or run has left open comes first."""
    from sapo_client.commands.hand import in_hand
    from sapo_client.duties.requests import Requests

    with (
        in_hand(asking.home, asking.settings, options.password_file, rpcs_of(options)) as hand,
        closing(open_book(asking.home)) as book,
    ):
        requests = Requests(hand.reader, hand.outbox, hand.node, book)
        deadline = time.monotonic() + options.wait
        if left := book.open():
            _drive(requests, left[-1].id, deadline)
        step = make(asking, hand.reader, hand.reader.node_of(hand.node))
        if step is None:
            return _nothing(options)
        _settle_first(hand, step)
        # One of the same kind that is on its way already is joined, and would be refused if it were new.
        if not any(request.kind == step.kind for request in book.open()):
            _refuse(asking, hand.reader, step)
        if before is not None:
            before(asking)
        request = book.ask(step.kind, step.key, step.call, step.value, step.argument)
        return _tell(options, asking, _drive(requests, request.id, deadline))


def _drive(requests: "Requests", number: int, deadline: float) -> "Request":
    """Until the request is settled, or the time is over."""
    while True:
        requests.go_on()
        requests.outbox.pump()
        requests.go_on()
        request = requests.book.get(number)
        if request.settled or time.monotonic() >= deadline:
            return request
        time.sleep(POLL_SECONDS)


def _settle_first(hand: "Hand", step: "Step") -> None:
    """With something overdue the contract gives no bond back."""
    from sapo_client.duties.claiming import settle_debts
    from sapo_client.duties.steps import WITHDRAW

    if step.kind == WITHDRAW:
        settle_debts(hand.reader, hand.outbox, hand.node)


def _refuse(asking: Asking, reader: "ChainReader", step: "Step") -> None:
    from sapo_client.duties.steps import refusal

    if words := refusal(reader, asking.node, asking.key, step.kind, step.call, step.value):
        raise SapoError(f"{step.kind}: {words}")


def _for_the_owner(
    options: argparse.Namespace,
    asking: Asking,
    reader: "ChainReader",
    step: "Step",
    before: Callable[[Asking], None] | None,
) -> int:
    """What the owner's wallet has to send. A running node takes note of what it has to know without it."""
    from sapo_client.duties.steps import SET_ENDPOINT
    from sapo_client.state.home import is_held

    if before is not None:
        before(asking)
    if step.kind == SET_ENDPOINT and is_held(asking.home):
        with closing(open_book(asking.home)) as book:
            book.ask(step.kind, step.key, None, 0, step.argument)
    words = (
        f"only the owner {asking.node} can do this, and this home has its operator's key {asking.key}; nothing was "
        "sent. Have the owner's wallet send what is shown"
    )
    document: dict[str, Any] = {
        "error": words,
        "status": USAGE,
        "from": asking.node,
        "to": reader.address_of(step.call.contract),
        "contract": step.contract,
        "function": step.signature,
        "arguments": list(step.call.args),
        "value": step.value,
        "data": "0x" + step.call.encode().hex(),
    }
    if options.json:
        print(json.dumps(document, indent=1))
        return USAGE
    for name in ("from", "to", "contract", "function", "arguments", "value", "data"):
        shown = " ".join(map(str, document[name])) if name == "arguments" else document[name]
        print(f"{name:10} {shown}{' wei' if name == 'value' else ''}")
    print(words)
    return USAGE


def _nothing(options: argparse.Namespace) -> int:
    words = "nothing had to be sent: the chain has it so already"
    print(json.dumps({"state": "done", "words": words}, indent=1) if options.json else words)
    return 0


def _tell(options: argparse.Namespace, asking: Asking, request: "Request") -> int:
    """Raises SapoError for what was refused, UnableError for what is not settled though it was waited for."""
    from sapo_client.state.home import is_held
    from sapo_client.state.requests import REFUSED

    if request.state == REFUSED:
        raise SapoError(f"{request.title} was not accepted: {request.words}")
    if not request.settled and options.wait:
        waits = f" ({request.words})" if request.words else ""
        goes_on = "the node goes on with it" if is_held(asking.home) else "`sapo run` goes on with it, or this command"
        raise UnableError(
            f"{request.title} was not mined in {options.wait:.0f} s{waits}; it stays asked, as request {request.id}: "
            f"{goes_on}, and `sapo status` shows it"
        )
    document = {
        "request": request.id,
        "kind": request.kind,
        "argument": request.argument,
        "state": request.state,
        "words": request.words,
        "transaction": None if request.hash is None else "0x" + request.hash.hex(),
    }
    if options.json:
        print(json.dumps(document, indent=1))
        return 0
    mined = f", mined as {document['transaction']}" if request.hash else ""
    print(f"{request.title}: {request.state}{mined}" + (f"; {request.words}" if request.words else ""))
    return 0


def open_book(home: Path) -> "RequestBook":
    from sapo_client.state import home as layout
    from sapo_client.state.requests import RequestBook

    with layout.private(home):
        return RequestBook(home / layout.REQUESTS)
