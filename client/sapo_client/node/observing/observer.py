"""What observes a running node, if its settings ask for that: the watch, its pages, its webhook."""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

from sapo_client.node.observing.condition import Look
from sapo_client.node.observing.server import Page, Server
from sapo_client.node.observing.watch import Told, Watch
from sapo_client.node.observing.webhook import Webhook
from sapo_client.state.report import StatusFile
from sapo_client.state.settings import MetricsSettings, Settings
from sapo_verifier.errors import UnableError
from sapo_verifier.trouble import Trouble

log = logging.getLogger(__name__)

HEALTH_SECONDS = 8.0  # of the ten within which `/healthz` answers


@contextmanager
def observed(home: Path, settings: Settings, status: StatusFile) -> Iterator[None]:
    """While the block lasts. Nothing is started where neither `[metrics] port` nor a webhook is set. Raises SapoError
    for a webhook file that cannot be, and for a library that is missing."""
    url = settings.alerts.url(home)
    if url is None and settings.metrics.port is None:
        yield
        return
    told: list[Told] = []
    with ExitStack() as stack:
        if url is not None:
            webhook = Webhook(url)
            webhook.start()
            stack.callback(webhook.stop)
            told.append(webhook.tell)
        look = Look(home, settings, settings.chain.rpc_urls(home))
        stack.callback(look.close)
        watch = Watch(look, told)
        if settings.metrics.port is not None:
            pages = Pages(_server(home, settings.metrics, settings.metrics.port, watch), settings.metrics, status)
            stack.callback(pages.close)
            pages.open()
            told.append(lambda condition: pages.open())
        watch.start()
        stack.callback(watch.stop)
        yield


class Pages:
    """A server that is opened as soon as its port is free: a node plays without it."""

    def __init__(self, server: Server, settings: MetricsSettings, status: StatusFile) -> None:
        self._server = server
        self._settings = settings
        self._status = status
        self._trouble = Trouble(log)

    def open(self) -> None:
        """Unless it is open."""
        if self._server.is_open:
            return
        try:
            self._server.open()
        except OSError as error:
            self._trouble.seen(
                f"[metrics] {self._settings.host}, port {self._settings.port}: {error.strerror or error}; the node "
                "plays on without /metrics and /healthz, and tries again. Set another port, or end what uses this one"
            )
            return
        self._trouble.over("/metrics and /healthz answer")
        self._status.note(metrics=self._server.url)
        log.info("%s/metrics and /healthz answer", self._server.url)

    def close(self) -> None:
        self._server.close()


def _server(home: Path, settings: MetricsSettings, port: int, watch: Watch) -> Server:
    try:
        from prometheus_client import CONTENT_TYPE_LATEST

        from sapo_client.node.observing.exposition import NodeCollector, exposition
    except ModuleNotFoundError as error:
        raise UnableError(
            f"this installation has no {error.name}, which [metrics] needs: pip install sapo-network[node]"
        ) from error
    collector = NodeCollector(home, watch)
    return Server(
        settings.host,
        port,
        {
            "/metrics": lambda: Page(exposition(collector), CONTENT_TYPE_LATEST),
            "/healthz": lambda: _health(watch.within(HEALTH_SECONDS)),
        },
    )


def _health(condition: Mapping[str, Any] | None) -> Page:
    found = {"healthy": False, "reasons": ["the node was not looked at yet"]} if condition is None else condition
    status = HTTPStatus.OK if found["healthy"] else HTTPStatus.SERVICE_UNAVAILABLE
    return Page(json.dumps(found, indent=1).encode() + b"\n", "application/json", status)
