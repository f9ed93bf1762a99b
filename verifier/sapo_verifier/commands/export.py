"""`sapo-verify export`: one batch as a file that anybody can check without the network."""

import argparse
import json
from pathlib import Path

from sapo_verifier.commands.options import add_audit_options, number
from sapo_verifier.commands.program import Commands, add_parser

WORDS = "write one batch into a file, with the proofs of what the chain holds about it"


def add_command(commands: Commands) -> None:
    """Give `sapo-verify` the command."""
    parser = add_parser(commands, "export", WORDS, run)
    add_audit_options(parser)
    parser.add_argument("index", type=number, help="the batch's position in the chain's list of all batches")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the file, which is made anew")
    parser.add_argument("--weights", action="store_true", help="the policy's weights too, for `check --model`")
    words = "prove the state of this block, which the RPC has to have kept (the latest)"
    parser.add_argument("--block", type=number, metavar="NUMBER", help=words)


def run(options: argparse.Namespace) -> int:
    """Exit status 1 where a block of the batch was not to be had: the bundle then shows that it is missing."""
    from sapo_verifier.audit import fetch_batch
    from sapo_verifier.bundles.bundle import write_bundle
    from sapo_verifier.bundles.gathering import gather
    from sapo_verifier.commands.tools import chain_of, verifier_of

    with chain_of(options) as reader, verifier_of(options, reader) as verifier:
        batch = verifier.batch(options.index)
        evidence, proven = gather(reader, batch, options.block)
        spec, facts = reader.deployment.spec, proven.facts
        peers = [reader.node_of(batch.node).endpoint]
        blocks = fetch_batch(verifier.store, spec, facts, peers, weights=options.weights)
    missing = ["0x" + digest.hex() for digest in write_bundle(options.output, evidence, spec, facts, blocks)]
    block_hash = "0x" + proven.block_hash.hex()
    if options.json:
        document = {"index": facts.index, "block": proven.block, "block_hash": block_hash, "missing": missing}
        print(json.dumps(document, indent=1))
    else:
        print(f"{options.output}: batch {facts.index}, {options.output.stat().st_size} bytes")
        print(f"proven by block {proven.block}: {block_hash}")
        for name in missing:
            print(f"  not to be had: block {name}")
    return 1 if missing else 0
