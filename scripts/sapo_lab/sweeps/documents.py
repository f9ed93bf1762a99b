"""Hostile documents for every parser: only SapoError leaves, time and memory are bounded, what passes is canonical."""

import json
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sapo_client.state.report import read_rounds, read_status
from sapo_devnet.testkit.formula import GROUP, LIMIT, SPEC
from sapo_lab.sweeps.mutations import distort, flip
from sapo_lab.sweeps.tally import Tally
from sapo_verifier import canonical
from sapo_verifier.chain.deployment import Contracts, Deployment
from sapo_verifier.cid import BLOCK_LIMIT
from sapo_verifier.errors import SapoError
from sapo_verifier.objects import BatchManifest, GroupBlock, PolicyManifest, Record, decode_records, encode_records
from sapo_verifier.protocol import VERSION
from sapo_verifier.spec import Spec

LIMIT_SECONDS = 5.0  # a document of 1 MiB takes a second
LIMIT_MIB = 200.0
DIGEST, ADDRESS = "0x" + "5a" * 32, "0x" + "c3" * 20

SCALARS = [
    b"0", b"-0", b"1", b"-1", b"2", b"256", b"65536", b"4294967296", b"9007199254740991", b"9007199254740992",
    b"1" * 4300, b"9" * 5000, b"01", b"+1", b"0x1", b"1.0", b"0.5", b"-0.0", b".5", b"1.", b"1e0", b"1E5", b"1e-5",
    b"1e400", b"-1e400", b"NaN", b"Infinity", b"-Infinity", b"nan", b"null", b"true", b"false", b"True", b"",
    b'""', b'"x"', b'"full"', b'"lora"', b'"base"', b'"\\u0000"', b'"\x00"', b'"\\ud800"', b'"\\udc00\\ud800"',
    b'"\\ud83d\\ude00"', b'"\xed\xa0\x80"', b'"\xff"', b'"\xc0\x80"', b'"\xf0\x9f\x98\x80"', b'"\\x41"', b'"\\u12"',
    b'"', b"'x'", b'"\n"', b'"\\/"', b'"\\u000a"', b'"\xe2\x80\xa8"', b'"' + DIGEST.encode() + b'"',
    b'"' + DIGEST.upper().encode() + b'"', b'"' + ADDRESS.encode() + b'"', b'"' + b"a" * 70_000 + b'"',
    b'"' + b"\\u0001" * 20_000 + b'"',
]  # fmt: skip
TINY = [b"0", b"1", b'""', b"[]", b"{}", b"null", b"[0]", b'{"":0}', b"[[[[[[]]]]]]", b'"a"', b"1.5", b'"\xc3\xa9"']


@dataclass(frozen=True)
class Kind:
    """parse raises SapoError or returns something; what it returned can be written again if `again` says how."""

    valid: dict[str, Any]
    parse: Callable[[bytes], Any]
    again: Callable[[Any], bytes] | None = None


def kinds(folder: Path) -> dict[str, Kind]:
    """Every parser of JSON that others wrote, or that a crash may have cut short. Files are written to `folder`."""

    def filed(name: str, load: Callable[[Path], Any], *, of: Path) -> Callable[[bytes], Any]:
        def parse(data: bytes) -> Any:
            (folder / name).write_bytes(data)
            return load(of)

        return parse

    group = {
        "v": VERSION, "slot": 0, "attempt": 1, "dataset": "gcd", "seed": 7, "prompt": "gcd 6 4?", "records": DIGEST,
        "completions": ["<2>", "<é>", "", "<\n"],
    }  # fmt: skip
    manifest = {
        "v": VERSION, "chain": 31337, "contract": ADDRESS, "round": 3, "node": ADDRESS, "policy": DIGEST,
        "groups": [DIGEST, "0x" + "00" * 32],
    }  # fmt: skip
    lora = {"rank": 4, "alpha": 8, "targets": ["q_proj", "v_proj"]}
    weights = {"kind": "lora", "size": 5, "blocks": [DIGEST], "lora": lora}
    policy = {"v": VERSION, "audit": DIGEST, "base": "tiny", **weights}
    contracts = dict.fromkeys(Contracts.model_fields, ADDRESS)
    deployment = {
        "v": VERSION, "chain_id": 31337, "block": 3, "block_hash": DIGEST, "first_block": 40, "contracts": contracts,
        "spec_digest": "0x" + SPEC.digest().hex(), "spec": SPEC.to_json(),
    }  # fmt: skip
    rounds = {"round": 3, "completions": 16, "failures": ["none"], "training": {"loss": "0.5"}}
    return {
        "group": Kind(group, GroupBlock.parse, GroupBlock.encode),
        "manifest": Kind(manifest, BatchManifest.parse, BatchManifest.encode),
        "policy": Kind(policy, PolicyManifest.parse, PolicyManifest.encode),
        "spec": Kind(SPEC.to_json(), Spec.parse, Spec.encode),
        "canonical": Kind(group, canonical.decode, canonical.encode),
        "deployment": Kind(deployment, filed("deployment.json", Deployment.load, of=folder / "deployment.json")),
        "rounds file": Kind(rounds, filed("rounds.jsonl", read_rounds, of=folder)),
        "status file": Kind({"pid": 1, "round": 3}, filed("status.json", read_status, of=folder)),
    }


def sweep(count: int, seed: int) -> Tally:
    """Cases seed … seed + count − 1. Raises AssertionError, naming the case, at the first one that breaks a rule."""
    tally = Tally(LIMIT_SECONDS, LIMIT_MIB)
    records = encode_records([[Record(5, 0, 2**64 - 1)] * 3] * GROUP)
    with tempfile.TemporaryDirectory() as folder:
        all_kinds = kinds(Path(folder))
        for kind in all_kinds.values():
            kind.parse(_plain(kind.valid))  # or every case would be refused for one reason
        for case in range(seed, seed + count):
            rng = random.Random(case)
            if rng.random() < 0.05:
                data = flip(rng, records)
                tally.count(f"records: {_outcome(tally, case, 'records', data, _decode_records, None)}")
                continue
            name = rng.choice(sorted(all_kinds))
            kind = all_kinds[name]
            data = hostile_document(rng, all_kinds[rng.choice(sorted(all_kinds))] if rng.random() < 0.1 else kind)
            tally.count(f"{name}: {_outcome(tally, case, name, data, kind.parse, kind.again)}")
    return tally


def _decode_records(data: bytes) -> Any:
    return decode_records(data, GROUP, LIMIT)


def _outcome(
    tally: Tally, case: int, name: str, data: bytes, parse: Callable[[bytes], Any], again: Callable[[Any], bytes] | None
) -> str:
    def attempt() -> Any:
        try:
            return parse(data)
        except SapoError as error:
            return error

    result = tally.measured(f"{name} {case}, {len(data):,} bytes", attempt)
    if isinstance(result, SapoError):
        assert len(str(result)) < 20_000, f"case {case}: an error message of {len(str(result))} characters"
        return "refused"
    assert again is None or again(result) == data, f"case {case}: accepted, and encodes to other bytes"
    return "accepted"


def hostile_document(rng: random.Random, kind: Kind) -> bytes:
    """One document, by the grammar or from a valid one."""
    match rng.randrange(10):
        case 0 | 1:
            return _grammar(rng, sorted(kind.valid), 0)
        case 2 | 3 | 4:
            document = kind.valid
            for _ in range(rng.choice((1, 1, 2, 5))):
                document = distort(rng, document)
            return _plain(document)
        case 5 | 6:
            return _spelled(rng, kind.valid, 0.1)
        case 7:
            return flip(rng, _plain(kind.valid))
        case 8:
            return _wrapped(rng, _plain(kind.valid))
        case _ if rng.random() < 0.25:
            return _large(rng, kind)
        case _:
            return rng.randbytes(rng.randrange(200))


def _plain(document: Any) -> bytes:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def _grammar(rng: random.Random, keys: list[str], depth: int) -> bytes:
    """Any JSON, and things close to it, with the fields' names as keys and sometimes one twice."""
    choice = rng.random()
    if choice < 0.45 + depth / 20:
        return rng.choice(SCALARS)
    if choice < 0.7:
        return b"[" + b",".join(_grammar(rng, keys, depth + 1) for _ in range(rng.randrange(5))) + b"]"
    pairs = [(rng.choice(keys).encode(), _grammar(rng, keys, depth + 1)) for _ in range(rng.randrange(8))]
    if rng.random() < 0.7:
        pairs = sorted(dict(pairs).items())
    return b"{" + b",".join(b'"%s":%s' % pair for pair in pairs) + b"}"


def _spelled(rng: random.Random, value: Any, odds: float) -> bytes:
    """A valid document with some of its parts exchanged for odd scalars, doubled, or spelled otherwise."""
    if rng.random() < odds:
        return rng.choice(SCALARS)
    if isinstance(value, dict):
        pairs = [(_plain(key), _spelled(rng, item, odds)) for key, item in sorted(value.items())]
        if rng.random() < odds:
            pairs.insert(rng.randrange(len(pairs) + 1), rng.choice(pairs))
        return b"{" + b",".join(b"%s:%s" % pair for pair in pairs) + b"}"
    if isinstance(value, list):
        return b"[" + b",".join(_spelled(rng, item, odds) for item in value) + b"]"
    return _plain(value)


def _wrapped(rng: random.Random, data: bytes) -> bytes:
    text = data.decode()
    depth = rng.choice((1, 8, 900, 100_000))
    return rng.choice(
        [
            b"\xef\xbb\xbf" + data, data + b"\n", b" " + data, data + b"\0", b"\0" + data, data + data, data[:-1],
            data + b"{}", text.encode("utf-16"), text.encode("utf-16-le"), text.encode("utf-32"),
            b"[" * depth + data + b"]" * depth, b'{"v":' * depth + data + b"}" * depth, b"[" * depth, b'{"v":' * depth,
            data.replace(b":", b": "), data.replace(b"1", b"1.0"), data.replace(b'"v":2', b'"v":true'),
            data.replace(b'"v":2', b'"v":2,"v":2'), data.replace(b"0x", b"0X"), data.replace(b"{", b"{,"), b"",
        ]
    )  # fmt: skip


def _large(rng: random.Random, kind: Kind) -> bytes:
    """About 1 MiB (sometimes just above) of tiny items, keys, digits, brackets or escapes, alone or in a field."""
    size = rng.choice((BLOCK_LIMIT - 400, BLOCK_LIMIT - 400, BLOCK_LIMIT + 1))
    item = rng.choice(TINY)
    body = rng.choice(
        [
            b"[" + b",".join([item] * (size // (len(item) + 1))) + b"]",
            b"{" + b",".join(b'"%06d":%s' % (i, item) for i in range(size // (len(item) + 10))) + b"}",
            b'"' + b"a" * size + b'"', b'"' + b"\\n" * (size // 2) + b'"', b"9" * size, b"[" * size,
            b'"' + "é".encode() * (size // 2) + b'"',
        ]
    )  # fmt: skip
    if rng.random() < 0.3:
        return body
    field = rng.choice(sorted(kind.valid))
    rest = {key: value for key, value in kind.valid.items() if key != field} if rng.random() < 0.5 else {"v": VERSION}
    pairs = sorted([(key, _plain(value)) for key, value in rest.items() if key != field] + [(field, body)])
    return b"{" + b",".join(b'"%s":%s' % (key.encode(), value) for key, value in pairs) + b"}"
