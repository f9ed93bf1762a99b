"""Vectors of everything that is published: record blocks, content addresses, canonical JSON, objects, answers."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sapo_lab.vectors.words import CHAIN, NODES, ROUNDS, Case, digest, hexed, records, u64


def records_blocks() -> dict[str, list[Case]]:
    from sapo_verifier import objects

    out: dict[str, list[Case]] = {}
    one = [[objects.Record(1, 0, 5)]]
    two = [[objects.Record(2**32 - 1, 0, 2**64 - 1)], [objects.Record(3, 2**63, 2**63), objects.Record(0, 9, 8)]]
    out["records_block"] = [
        {"group_size": len(group), "max_new_tokens": 2,
         "completions": [[[r.token, u64(r.lo), u64(r.last)] for r in completion] for completion in group],
         "out": hexed(objects.encode_records(group))}
        for group in (one, two)
    ]  # fmt: skip
    good = objects.encode_records(two)
    refused = [
        ("empty", b""), ("no second completion", good[:24]), ("ends inside a count", good[:26]),
        ("ends inside a record", good[:-1]), ("a byte too many", good + b"\0"),
        ("n = 0", b"\0\0\0\0" + good[24:]), ("n above the limit", b"\0\0\0\3" + records(3, "long") + good[:24]),
        ("n of four gigabytes", b"\xff" * 4 + good[4:]),
    ]  # fmt: skip
    out["records_block_refused"] = [
        {"why": why, "group_size": 2, "max_new_tokens": 2, "bytes": hexed(data)} for why, data in refused
    ]
    return out


def documents() -> dict[str, list[Case]]:
    from sapo_verifier import canonical, cid

    out: dict[str, list[Case]] = {}
    blocks = [b"", b"sapo", b'{"v":2}', bytes(1000)]
    out["cid"] = [
        {"bytes": hexed(data), "digest": hexed(cid.block_digest(data)), "out": cid.cid(cid.block_digest(data))}
        for data in blocks
    ]
    accepted = [
        {}, [], True, 0, 2**53 - 1, -(2**53) + 1, "", {"b": 1, "a": [False, "x"]},
        {"€": 1, "\r": 2, "\ufb33": 3, "😀": 4, "1": 5},
        "\b\t\n\f\r\"\\/\u0000\u001f\u007f\u2028é", [[[[[[[[]]]]]]]], {"decimal": "0.5"}, ["[" * 9],
    ]  # fmt: skip
    out["canonical"] = [{"bytes": hexed(canonical.encode(value)), "json": value} for value in accepted]
    refused = {
        "a float": b"1.5", "an exponent": b"1e3", "NaN": b"NaN", "infinity": b"-Infinity", "null": b"null",
        "a duplicate key": b'{"a":1,"a":1}', "unsorted keys": b'{"b":1,"a":1}', "white space": b'{"a": 1}',
        "a final newline": b"{}\n", "an escape that is not needed": b'"\\u0041"', "an escaped slash": b'"\\/"',
        "upper-case hex in an escape": b'"\\u001F"', "minus zero": b"-0", "a leading zero": b"01",
        "2^53": b"9007199254740992",
        "-2^53": b"-9007199254740992", "nine levels": b"[" * 9 + b"]" * 9, "a byte-order mark": b"\xef\xbb\xbf{}",
        "bad UTF-8": b'"\xff"', "a surrogate in UTF-8": b'"\xed\xa0\x80"', "an escaped surrogate": b'"\\ud800"',
        "nothing": b"",
        "two documents": b"{}{}", "a raw control character": b'"\x01"',
    }  # fmt: skip
    out["canonical_refused"] = [{"why": why, "bytes": hexed(data)} for why, data in refused.items()]
    out["objects"] = [
        {"kind": type(made).__name__, "json": made.to_json(), "bytes": hexed(made.encode()),
         "digest": hexed(cid.block_digest(made.encode())), "cid": cid.cid(cid.block_digest(made.encode()))}
        for made in examples()
    ]  # fmt: skip
    return out


def examples() -> list[Any]:
    """One of each object."""
    from sapo_verifier import objects, spec
    from sapo_verifier.cid import BLOCK_LIMIT

    group = objects.GroupBlock(
        slot=3, attempt=0, dataset="gcd", seed=2**32 - 1, prompt="G48,18=",
        completions=["<6>", "<\ufffd\n\"\\>", ""], records=digest("records"),
    )  # fmt: skip
    manifest = objects.BatchManifest(
        chain=CHAIN,
        contract=ROUNDS,
        round=12,
        node=NODES[2],
        policy=digest("policy"),
        groups=[digest("g/0"), digest("g/1")],
    )
    lora = objects.Lora(rank=8, alpha=16, targets=["q_proj", "v_proj"])
    rules = spec.ChainRules(
        round_blocks=64,
        draws=8,
        min_accepts=2,
        min_rejects=8,
        exit_rounds=9,
        bond="0xde0b6b3a7640000",
        dispute_bond="0xb1a2bc2ec50000",
        missed_batch_fee="0x470de4df820000",
        missed_reveal_fee="0x470de4df820000",
        wrong_verdict_penalty="0xb1a2bc2ec50000",
        withheld_fee="0x16345785d8a0000",
        supply="0x33b2e3c9fd0803ce8000000",
        initial_pool="0x21e19e0c9bab2400000",
        halving_rounds=50_000,
        auditors_share=1_000,
        max_per_unit="0x8ac7230489e80000",
        max_per_verdict="0x1158e460913d00000",
    )
    tasks = [
        spec.TaskRule(name="gcd", config={"min_value": 1, "max_value": 60}, weight=4),
        spec.TaskRule(name="binary_matrix", config={"p_zero": {"decimal": "0.35"}, "max_n": 3}, weight=1),
    ]
    bases = [
        spec.BaseRule(id="tiny", digest=digest("base"), vocab=60, eos=[58], context=64, template="compact",
                      max_token_bytes=2, max_adapter_bytes=1 << 23, max_rank=0),
        spec.BaseRule(id="large", digest=digest("base/2"), vocab=49152, eos=[0, 2], context=2048,
                      template="<|im_start|>user\n{question}\n{instruction}<|im_end|>\n<|im_start|>assistant\n",
                      max_token_bytes=200, max_adapter_bytes=1 << 25, max_rank=16),
    ]  # fmt: skip
    versions = spec.Versions(reasoning_gym="0.1.25", digest=digest("items"))
    wrong = objects.Finding(check="reward", status="fail", reason="reward 1 is claimed, 0 is earned", slot=2, k=6)
    gone = objects.Finding(check="available", status="void", reason="nobody has it")
    return [
        group,
        manifest,
        objects.PolicyManifest(audit=objects.NO_AUDIT, base="tiny", kind="base", size=0, blocks=[]),
        objects.PolicyManifest(audit=digest("audit"), base="tiny", kind="full", size=BLOCK_LIMIT + 1,
                               blocks=[digest("w/0"), digest("w/1")]),
        objects.PolicyManifest(audit=digest("audit/2"), base="large", kind="lora", size=BLOCK_LIMIT,
                               blocks=[digest("w/2")], lora=lora),
        spec.Spec(
            chain=rules, group_size=8, max_slots=16, max_new_tokens=15, max_prompt_bytes=1024, pool_rounds=2, spot=4,
            tasks=tasks, answer="brackets", versions=versions, bases=bases,
        ),
        objects.VerdictReport(
            round=12, stage=1, voter=NODES[2],
            batches=[
                objects.BatchVerdict(index=40, verdict=1, findings=[]),
                objects.BatchVerdict(index=41, verdict=2, findings=[wrong]),
                objects.BatchVerdict(index=43, verdict=3, findings=[gone]),
            ],
        ),
    ]  # fmt: skip


def bases() -> dict[str, list[Case]]:
    from sapo_verifier.bases import digest_of_folder

    whole = {"config.json": "{}", "model.safetensors": "weights", "tokenizer.json": "{}"}
    strays = {"README.md": "of no use", "model.safetensors.index.json": "{}", "pytorch_model.bin": "a pickle"}
    places = {"a": "one.safetensors", "b": "two.safetensors", "c": "one.safetensors"}
    shards = {
        "config.json": "{}", "generation_config.json": "[]", "tokenizer.json": "{}", "tokenizer_config.json": "[]",
        "model.safetensors.index.json": json.dumps({"weight_map": places}), "one.safetensors": "1",
        "two.safetensors": "2", "three.safetensors": "3",
    }  # fmt: skip
    out = []
    for files in (whole, whole | strays, shards):
        with TemporaryDirectory() as folder:
            for name, text in files.items():
                (Path(folder) / name).write_text(text)
            out.append({"files": files, "out": hexed(digest_of_folder(Path(folder)))})
    return {"base_digest": out}


def samples() -> dict[str, list[Case]]:
    """Of reasoning-gym's version that is installed."""
    from sapo_verifier import canonical
    from sapo_verifier.cid import block_digest
    from sapo_verifier.spec import TaskRule
    from sapo_verifier.tasks import POCKET_TASKS, TaskWorker, sample, tasks_digest

    rules = [TaskRule.model_validate(rule) for rule in POCKET_TASKS]
    out: dict[str, list[Case]] = {}
    raises = TaskRule(name="gcd", config={"min_value": 9, "max_value": 1}, weight=1)
    with TaskWorker() as worker:
        made = [(rule, sample.item(rule, 0, worker)) for rule in [*rules, raises]]
    out["task_item"] = [
        {"dataset": rule.name, "config": rule.config, "seed": 0, "json": item,
         "out": hexed(block_digest(canonical.encode(item)))}
        for rule, item in made
    ]  # fmt: skip
    out["tasks_digest"] = [
        {"tasks": [{"name": rule.name, "config": rule.config} for rule in some], "out": hexed(tasks_digest(some))}
        for some in (rules[-1:], rules)
    ]
    return out


def answers() -> dict[str, list[Case]]:
    from sapo_verifier.tasks import extract

    out: dict[str, list[Case]] = {}
    texts = {
        "brackets": ["<6>", "<>", "<<6>>", "<6> ", " <6>", "<6>\n", "6", "<6", "<", "", "< 6 >", "<6><7>", "<a\nb>"],
        "tag": [
            "<answer>6</answer>", "so <answer> 6\n</answer>.", "<answer>5</answer><answer>6</answer>", "<answer>6", "6",
            "<answer>5</answer><answer>6", "<answer>5<answer>6</answer>", "<answer>6</answer></answer>",
            "</answer>6<answer>",
            "<answer></answer>", "<ANSWER>6</ANSWER>", "", "<answer>\x1c\u30006\u200b\x85</answer>",
        ],
        "whole": ["6", " 6\n", "", " \n", "<6>", "the answer\n is 6", "\x1c\u30006\u200b\x85", "<answer>6</answer>"],
    }  # fmt: skip
    out["extract"] = [
        {"style": style, "text": text, "out": extract(text, style)}
        for style, chosen in texts.items()
        for text in chosen
    ]
    return out
