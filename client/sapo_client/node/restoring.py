"""A home from a backup, where the old one is gone: what that loses is read from the chain, and said first."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from sapo_client.duties.ballots import BallotBox
from sapo_client.duties.claiming import first_round, unclaimed
from sapo_client.duties.debts import debts_of
from sapo_client.duties.health.votes import own_batches
from sapo_client.node.alone import LOOK_BACK
from sapo_client.node.arriving import fitted
from sapo_client.node.moving import copied, deployment_name, files_of, private_files, whole
from sapo_client.state import home as layout
from sapo_client.state.moved import refuse_moved
from sapo_client.state.report import ROUNDS_FILE
from sapo_client.state.settings import FILE_NAME, Settings
from sapo_client.state.staging import arriving, settle
from sapo_client.transactions.strangers import Signed, recent_strangers
from sapo_verifier import keystore
from sapo_verifier.chain.audits import AuditsReader
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.errors import coins
from sapo_verifier.chain.reader import ChainReader, NodeState, open_chain
from sapo_verifier.errors import UnableError, UsageError
from sapo_verifier.schedule import FINAL_AFTER, REVEAL_AFTER

if TYPE_CHECKING:
    from sapo_client.policy.checkpoint import Checkpoint

# Of any age they are of use. What was asked of the node once may be done, and what blocks it keeps is not here.
DATABASES = (layout.OUTBOX, layout.BALLOTS)


def restore(
    source: Path,
    home: Path,
    changes: Mapping[str, Any],
    rpcs: Sequence[str] | None,
    *,
    deployment: Path | None,
    dry_run: bool,
    say: Callable[[str], None],
) -> None:
    """Say what is lost, line by line; then make the home, but for a dry run.

    source: the backup's folder, which stays as it is. Raises SapoError in words; nothing is there then.
    """
    home = home.absolute()
    if dry_run:
        with TemporaryDirectory() as folder:
            _restore(source, Path(folder), changes, rpcs, deployment, say)
        return
    with arriving(home) as aside:
        found = _restore(source, aside, changes, rpcs, deployment, say)
        fitted(aside, home, changes)
        for name, path in files_of(found).items():
            (aside / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, aside / name)
        settle(aside, home)


def _restore(
    source: Path,
    aside: Path,
    changes: Mapping[str, Any],
    rpcs: Sequence[str] | None,
    deployment: Path | None,
    say: Callable[[str], None],
) -> "list[Checkpoint]":
    """All but the checkpoints of the backup, which are given, in `aside`; and what is lost is said."""
    _gather(source, aside, deployment)
    settings = fitted(aside, aside, changes)
    key, checkpoints = keystore.address_of(aside / layout.KEYSTORE), whole(source)
    node, signed = settings.chain.owner or key, Signed(key, aside / layout.OUTBOX)
    with open_chain(Deployment.load(settings.chain.deployment), rpcs or settings.chain.rpc_urls(aside)) as reader:
        for line in _losses(reader, node, signed, aside / layout.BALLOTS, checkpoints):
            say(line)
    return checkpoints


def _gather(source: Path, aside: Path, deployment: Path | None) -> None:
    """Raises UsageError where the backup lacks what no home can be without, UnableError where it is a home in use."""
    for name in (FILE_NAME, layout.KEYSTORE):
        if not (source / name).is_file():
            raise UsageError(
                f"the backup {source} has no {name}. A home needs settings and a key: without the settings make one "
                "with `sapo init --keystore FILE`; without the key, or its password, nobody can restore the node"
            )
    if (source / layout.LOCK).exists() and layout.is_held(source):
        raise UnableError(f"a process runs the node in {source}: that is no backup. `sapo move export` moves it")
    refuse_moved(source)
    settings = Settings.load(source)
    found = [path for path in sorted(source.glob("deployment.*")) if path.is_file()][:1]
    path = deployment or next(iter([*found, settings.chain.deployment]))
    Deployment.load(path)  # one that cannot be is told before anything is asked
    shutil.copyfile(path, aside / deployment_name(path))
    for name in (FILE_NAME, layout.KEYSTORE, ROUNDS_FILE):
        if (source / name).exists():
            shutil.copyfile(source / name, aside / name)
    (aside / layout.KEYSTORE).chmod(0o400)
    for name, path in private_files(source, settings.model_dump()).items():
        if path.exists():
            shutil.copyfile(path, aside / name)
            (aside / name).chmod(0o600)
    for name in DATABASES:
        for path in source.glob(f"{name}*"):  # with what SQLite's journal holds
            if path.name in (name, f"{name}-wal"):
                shutil.copyfile(path, aside / f"copied-{path.name}")
        if (copy := aside / f"copied-{name}").exists():
            copied(copy, aside / name)
        for path in aside.glob("copied-*"):
            path.unlink()


def _losses(
    reader: ChainReader, node: str, signed: Signed, ballots: Path, checkpoints: "Sequence[Checkpoint]"
) -> Iterator[str]:
    """What is lost, and what is not, a line each. Raises ChainUnavailable."""
    audits, info, current = AuditsReader(reader), reader.node_of(node), reader.current_round()
    yield f"node {node} in round {current}: {info.state.value}, bond {coins(info.bond)} coins"
    if info.state is NodeState.NONE:
        yield "it never registered: nothing is lost"
        return
    fees = 0
    for debt in debts_of(reader, audits, node, current):
        fees += debt.fee
        yield f"fee {coins(debt.fee)}: of round {debt.round}, overdue already"
    for round_, stage in _unrevealed(reader, audits, node, current, ballots):
        fees += audits.terms().missed_reveal_fee
        yield (
            f"fee {coins(audits.terms().missed_reveal_fee)}: the verdicts on round {round_} (stage {stage}) are "
            f"committed, to be revealed in round {round_ + REVEAL_AFTER[stage]}, and what they were is lost"
        )
    for round_ in _unpublished(reader, node, current, checkpoints):
        fees += audits.terms().missed_batch_fee
        yield (
            f"fee {coins(audits.terms().missed_batch_fee)}: a policy is committed for round {round_}, and its weights "
            "are lost, so its batch cannot be made (unless nothing was learned since the backup, or ever)"
        )
    yield f"fees in all: {coins(fees)} coins of the bond"
    rounds = range(max(0, current - FINAL_AFTER + 1), current + 1)
    if batches := [batch for batch in own_batches(reader, audits, node, rounds) if not batch.outcome.is_final]:
        yield (
            f"blocks: those of {len(batches)} own batches that are not final (of rounds "
            f"{', '.join(str(batch.round) for batch in batches)}) are owed, and lost, unless another IPFS daemon has "
            "them. Where others ask for one in vain, the batch can be disputed, ends void, and is not paid"
        )
    if checkpoints:
        yield f"weights: learning goes on from round {checkpoints[0].round}; what was learned since is lost"
    else:
        yield "weights: there is no whole checkpoint, so learning begins again with the base"
    ready = unclaimed(audits, node, range(first_round(reader, node, current, None), current - FINAL_AFTER + 1))
    yield f"pay: not lost. {coins(sum(pay.amount for pay in ready))} tokens of {len(ready)} rounds are ready to claim"
    if recent_strangers(reader, signed, LOOK_BACK * reader.deployment.spec.chain.round_blocks):
        yield "time: `sapo run` watches for a round whether the old node still acts, and sends nothing meanwhile"


def _unrevealed(
    reader: ChainReader, audits: AuditsReader, node: str, current: int, ballots: Path
) -> Iterator[tuple[int, int]]:
    """(round, stage) of commitments that can still be revealed, and are not in the backup."""
    for stage, later in REVEAL_AFTER.items():
        for round_ in range(max(0, current - later), current):
            commitment = audits.commitment_of(node, round_, stage)
            if commitment is None or commitment in _known(ballots, round_, stage, node):
                continue
            yield round_, stage


def _known(ballots: Path, round_: int, stage: int, node: str) -> set[bytes]:
    if not ballots.exists():
        return set()
    with closing(BallotBox(ballots)) as box:
        return {ballot.hash(node) for ballot in box.all_of(round_, stage)}


def _unpublished(reader: ChainReader, node: str, current: int, checkpoints: "Sequence[Checkpoint]") -> Iterator[int]:
    """Rounds for which a policy is committed, whose batch is not there, and whose weights the backup does not have.
    What is committed for a round was learned up to the round before it."""
    latest = max((each.round for each in checkpoints), default=-1)
    for round_ in range(max(0, current), current + 2):
        if round_ - 1 <= latest or reader.policy_of(node, round_) is None:
            continue
        if reader.batch_of(node, round_) is None:
            yield round_
