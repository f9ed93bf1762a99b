"""What stands in for the tasks where this machine makes other ones than the network, or none."""

from collections.abc import Mapping
from typing import Any

from sapo_verifier.errors import TaskError
from sapo_verifier.tasks import TaskWorker


class NoTasks(TaskWorker):
    """Generates and scores nothing, and says why: what needs tasks is unknown then."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self._why = why

    def entry(self, dataset: str, config: Mapping[str, Any], seed: int) -> dict[str, Any]:
        raise TaskError(self._why)
