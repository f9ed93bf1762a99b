"""A batch in one file: written from an audit, and read back for one, without the network."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sapo_verifier.audit import Documents, Found, fetch_batch
from sapo_verifier.bundles.car import Car, write_car
from sapo_verifier.bundles.errors import BundleError
from sapo_verifier.bundles.evidence import Evidence, Proven, prove, read_evidence
from sapo_verifier.cid import block_digest
from sapo_verifier.errors import ObjectError, UsageError
from sapo_verifier.facts import BatchFacts
from sapo_verifier.spec import Spec


@dataclass(frozen=True)
class Bundle:
    """What a file holds. car: its blocks, while it is open."""

    proven: Proven
    spec: Spec
    car: Car

    @property
    def facts(self) -> BatchFacts:
        """What the chain says of the batch."""
        return self.proven.facts

    def blocks(self, *, weights: bool = False) -> dict[bytes, Found]:
        """As `audit.fetch_batch` gives them. weights: the policy's too."""
        return fetch_batch(self.car, self.spec, self.facts, (), weights=weights)

    def has_weights(self) -> bool:
        """Whether all of the policy's weights are in it, as far as it has any."""
        chunks = Documents(self.facts, self.spec, self.blocks()).weight_blocks()
        return all(digest in self.car for digest, _ in chunks)


@contextmanager
def open_bundle(path: Path) -> Iterator[Bundle]:
    """Reads the evidence and the spec; the batch's own blocks are read when they are asked for.

    Raises UsageError where there is no such file, BundleError where it is no bundle or proves nothing.
    """
    with Car(path) as car:
        proven = prove(read_evidence(_own(car, car.root, "its root block")))
        try:
            spec = Spec.parse(_own(car, proven.spec_digest, "the network's spec"))
        except ObjectError as error:
            raise BundleError(f"the bundle's network has a spec that this version cannot read: {error}") from error
        yield Bundle(proven, spec, car)


def write_bundle(
    path: Path, evidence: Evidence, spec: Spec, facts: BatchFacts, blocks: dict[bytes, Found]
) -> list[bytes]:
    """Writes what there is of the batch's blocks; returns the digests of those that there are not.

    Raises UsageError where the file cannot be written.
    """
    documents = Documents(facts, spec, blocks)
    named = [*documents.named(), *(digest for digest, _ in documents.weight_blocks() if digest in blocks)]
    had = [found for digest in named if isinstance(found := blocks.get(digest), bytes)]
    try:
        with path.open("xb") as file:
            write_car(file, [evidence.encode(), spec.encode(), *had])
    except FileExistsError:
        raise UsageError(f"{path} is there already: give another name") from None
    except OSError as error:
        raise UsageError(f"the bundle {path} cannot be written ({error.strerror}): give a path that can") from None
    return [digest for digest in named if not isinstance(blocks.get(digest), bytes)]


def _own(car: Car, digest: bytes, what: str) -> bytes:
    """A block that is not the batch's, but the bundle's."""
    data = car.get(digest)
    if data is None:
        raise BundleError(f"the bundle lacks {what} (0x{digest.hex()}); get it again from who made it")
    if block_digest(data) != digest:
        raise BundleError(f"the bundle has other bytes for {what} than 0x{digest.hex()} names; get it again")
    return data
