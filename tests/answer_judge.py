"""A process of its own that knows nothing but a chain and gateways: it recomputes what voters answered in a round.

python answer_judge.py DEPLOYMENT RPC ROUND        # prints a line of JSON for each voter and batch that it accepts
"""

import json
import sys
from typing import Any

from eth_hash.auto import keccak

from sapo_devnet.formula.judging import FormulaModel
from sapo_devnet.formula.shared import RememberingWorker
from sapo_verifier import protocol
from sapo_verifier.audit import Audit, Documents, fetch_batch
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.events import pages
from sapo_verifier.chain.reader import ChainReader, open_chain
from sapo_verifier.checks import Verdict
from sapo_verifier.facts import BatchFacts, BatchInfo
from sapo_verifier.ipfs import GatewayReader
from sapo_verifier.schedule import COMMIT_AFTER, window_size
from sapo_verifier.spots import Spots, decode_answers


def judge(reader: ChainReader, round_: int) -> None:
    deployment, spec = reader.deployment, reader.deployment.spec
    info, own, dealer = reader.round_at(round_), reader.batches_of(round_), reader.beacon(round_)
    drawn = reader.beacon(round_ + COMMIT_AFTER[1])
    assert dealer is not None
    assert drawn is not None
    with GatewayReader(allow_private=True) as store, RememberingWorker() as worker:

        def documents(batch: BatchInfo) -> Documents:
            facts = BatchFacts.of(deployment, batch, dealer)
            return Documents(facts, spec, fetch_batch(store, spec, facts, [reader.node_of(batch.node).endpoint]))

        events = [event for page in pages(reader, None) for event in page.events if event.name == "VerdictsRevealed"]
        for args in (event.args for event in events):
            if (args["round"], args["stage"]) != (round_, 1):
                continue
            mine = next(batch for batch in own if batch.node == args["voter"])
            position = mine.index - info.first
            window = protocol.window(args["start"], info.count, position, window_size(spec.chain.draws, 1))
            verdicts = [(args["verdicts"] >> (2 * j)) & 3 for j in range(len(window))]
            accepted = [info.first + at for at, said in zip(window, verdicts, strict=True) if said == Verdict.ACCEPT]
            answers = decode_answers(args["answers"])
            for index in accepted:
                batch = reader.batch_at(index)
                found = documents(batch)
                completions = batch.slots * spec.group_size
                spots = Spots.of(drawn, args["salt"], index, completions, spec.spot)
                told, answers = answers[: len(spots.leaves)], answers[len(spots.leaves) :]
                audit = Audit(found.facts, spec, found.blocks, worker, unread, FormulaModel(), spots=spots)
                assert audit.recomputed is not None
                line = {
                    "voter": args["voter"],
                    "index": index,
                    "completions": completions,
                    "spots": list(spots.leaves),
                    "told": told,
                    "true": list(audit.recomputed.answers),
                    "vouched": documents(mine).policy.audit == keccak(args["salt"]),
                }
                print(json.dumps(line))
            assert answers == [], "more answers than spots"


def unread(_: object) -> Any:
    raise AssertionError("the formula reads no tokens")


if __name__ == "__main__":
    file, rpc, of = sys.argv[1:]
    with open_chain(Deployment.load(file), rpc) as opened:
        judge(opened, int(of))
