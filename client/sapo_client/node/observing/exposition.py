"""Everything that is declared, as Prometheus reads it: a registry of the node's own."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from sapo_client.duties.health.outbox import transactions
from sapo_client.duties.metrics import EARNED, GIVEN, STANDING
from sapo_client.node.observing.metrics import STATE, State
from sapo_client.node.observing.reported import DECLARED, Reported
from sapo_client.node.observing.watch import Watch
from sapo_client.state.home import BALLOTS, OUTBOX
from sapo_client.state.report import read_status
from sapo_client.transactions.metrics import OUTBOX as OF_OUTBOX
from sapo_client.transactions.metrics import SPENT
from sapo_verifier.metric import Metric, S, Value


@dataclass(eq=False)
class NodeCollector(Collector):
    """Reads the home and the watch's last look; asks nobody, so it answers at once."""

    home: Path
    watch: Watch
    _reported: Reported = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._reported = Reported(self.home)

    def collect(self) -> Iterator[Family]:
        """One family for each metric that is known."""
        watch, home = self.watch, self.home
        with self._lock:
            self._reported.look()
            values = dict(self._reported.values)
        yield from _families((metric, values.get(metric.name)) for metric in DECLARED)
        yield from _families(_of(STATE, State(read_status(home) or {}, watch.condition or {}, watch.looked)))
        yield from _families(_of(OF_OUTBOX, transactions(home / OUTBOX)))
        yield from _families(_of(SPENT, watch.spending))
        yield from _families(_of(STANDING, watch.numbers))
        yield from _families(_of(EARNED, watch.earned))
        yield from _families(_of(GIVEN, home / BALLOTS))


def _of(declared: Iterable[Metric[S]], source: S) -> Iterator[tuple[Metric[S], Value]]:
    return ((metric, metric.of(source)) for metric in declared)


def _families(valued: Iterable[tuple[Metric[S], Value]]) -> Iterator[Family]:
    for metric, value in valued:
        if value is None:
            continue
        labels = [metric.label] if metric.label else []
        made = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
        family = made(metric.name, metric.words, labels=labels)
        for label, number in value.items() if isinstance(value, Mapping) else [(None, value)]:
            family.add_metric([] if label is None else [str(label)], float(number))
        yield family


def exposition(collector: NodeCollector) -> bytes:
    """The text of `/metrics`; with the process' memory, time and files."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(collector)
    return bytes(generate_latest(registry))
