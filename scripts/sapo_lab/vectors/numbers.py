"""Vectors of every rule that makes a number: hashes, seeds, draws, trees, intervals."""

from sapo_lab.vectors.words import CHAIN, NODES, ROUNDS, Case, digest, hexed, records, u64, u256


def hashes() -> dict[str, list[Case]]:
    from sapo_verifier import protocol as p

    out: dict[str, list[Case]] = {}
    tags = ("beacon", "task", "stream", "draw", "leaf", "node", "chunk", "verdicts", "window", "spot", "probe")
    out["tags"] = [{"tag": tag, "out": hexed(p.tag_word(tag))} for tag in tags]

    beacons = [
        (CHAIN, ROUNDS, 0, digest("entropy")),
        (1, NODES[3], 1, p.ZERO),
        (2**256 - 1, NODES[0], 2**64, b"\xff" * 32),
    ]
    out["beacon"] = [
        {
            "chain_id": u256(c),
            "rounds": a,
            "round": u256(r),
            "entropy": hexed(e),
            "out": hexed(p.beacon(c, a, r, e)),
        }
        for c, a, r, e in beacons
    ]
    seeds = [(digest(f"beacon/{i}"), NODES[i % 4], slot, i // 2) for i, slot in enumerate((0, 1, 15, 255, 31, 2))]
    out["task_seed"] = [
        {"beacon": hexed(b), "node": n, "slot": s, "attempt": a, "out": u256(p.task_seed(b, n, s, a))}
        for b, n, s, a in seeds
    ]
    drawn = [p.task_seed(*seed) for seed in seeds] + [0, 2**256 - 1, 3 << 224, 4 << 224, 9 << 224, (2**32 - 1) << 192]
    out["dataset_choice"] = [
        {"task_seed": u256(seed), "weights": weights, "out": p.dataset_choice(seed, weights)}
        for seed in drawn
        for weights in ([1] * 9, [4, 1, 5], [65535])
    ]
    out["generator_seed"] = [{"task_seed": u256(seed), "out": p.generator_seed(seed)} for seed in drawn]

    keys = [(digest(f"beacon/{i}"), digest(f"policy/{i}"), NODES[i % 4], i, k) for i, k in enumerate((0, 7, 1, 255, 3))]
    out["stream_key"] = [
        {
            "beacon": hexed(b),
            "policy": hexed(d),
            "node": n,
            "slot": s,
            "k": k,
            "out": hexed(p.stream_key(b, d, n, s, k)),
        }
        for b, d, n, s, k in keys
    ]
    out["stream_value"] = [
        {"key": hexed(key), "t": t, "out": u64(p.stream_value(key, t))}
        for key in (p.stream_key(*keys[0]), p.ZERO)
        for t in (0, 1, 2, 14, 255, 65534)
    ]
    out["draw_start"] = [
        {"beacon": hexed(digest(f"beacon/{i}")), "voter": NODES[i % 4], "stage": 1 + i % 2, "count": count,
         "out": p.draw_start(digest(f"beacon/{i}"), NODES[i % 4], 1 + i % 2, count)}
        for i, count in enumerate((1, 2, 3, 40, 1000, 2**40))
    ]  # fmt: skip
    out["permuted"] = [
        {"beacon": hexed(digest(f"beacon/{i}")), "stage": 1 + i % 2, "position": position, "count": count,
         "out": p.permuted(digest(f"beacon/{i}"), 1 + i % 2, position, count)}
        for i, (position, count) in enumerate(
            ((0, 1), (0, 2), (1, 2), (2, 3), (7, 16), (16, 17), (39, 40), (999, 1000), (2**40 - 1, 2**40))
        )
    ]  # fmt: skip
    out["spot_key"] = [
        {"beacon": hexed(digest(f"beacon/{i}")), "seed": hexed(digest(f"seed/{i}")), "index": index,
         "out": hexed(p.spot_key(digest(f"beacon/{i}"), digest(f"seed/{i}"), index))}
        for i, index in enumerate((0, 1, 2**40))
    ]  # fmt: skip
    out["spots"] = [
        {"key": hexed(digest(f"spots/{i}")), "completions": completions, "count": count,
         "out": p.spots(digest(f"spots/{i}"), completions, count)}
        for i, (completions, count) in enumerate(
            ((1, 1), (2, 1), (32, 1), (32, 4), (128, 4), (8, 8), (8, 256), (256, 16))
        )
    ]  # fmt: skip
    ends = 2**64 - 1
    intervals = [(0, 0), (0, 2**63), (5, 2**63), (ends, ends), (1, ends), (0, ends - 1), (2**62, 3 * 2**62)]
    out["probe"] = [
        {"key": hexed(digest(f"probe/{i}")), "i": 17 * i, "lo": u64(lo), "last": u64(last),
         "out": u64(p.probe(digest(f"probe/{i}"), 17 * i, lo, last) or 0)}
        for i, (lo, last) in enumerate(intervals)
    ]  # fmt: skip
    windows = [
        (0, 1, None, 8), (0, 1, 0, 8), (1, 2, 0, 8), (1, 2, 1, 8), (3, 5, None, 8), (3, 5, 4, 3), (3, 5, 0, 3),
        (4, 5, 4, 32), (2, 9, 1, 8), (2, 9, None, 8), (38, 40, 3, 4), (38, 40, 39, 4), (0, 40, 39, 32),
        (7, 40, None, 1),
    ]  # fmt: skip
    out["window"] = [
        {"start": s, "count": c, "own": own, "size": size, "out": p.window(s, c, own, size)}
        for s, c, own, size in windows
    ]
    folds = [(p.ZERO, NODES[2], digest("manifest"), digest("root"), 0)]
    folds += [(p.fold_acc(*folds[0]), NODES[3], digest("manifest/2"), digest("root/2"), 2**256 - 1)]
    out["fold_acc"] = [
        {"acc": hexed(a), "node": n, "manifest": hexed(m), "root": hexed(r), "claim": u256(c),
         "out": hexed(p.fold_acc(a, n, m, r, c))}
        for a, n, m, r, c in folds
    ]  # fmt: skip
    votes = [
        (0, digest("report"), digest("salt")),
        (0b01_10_11_00, p.ZERO, p.ZERO),
        (2**256 - 1, b"\xff" * 32, digest("s")),
    ]
    out["verdicts_hash"] = [
        {"beacon": hexed(digest("beacon")), "acc": hexed(digest("acc")), "voter": NODES[i + 1], "stage": 1 + i % 2,
         "verdicts": u256(v), "report": hexed(r), "answers": hexed(a),
         "salt": hexed(s),
         "out": hexed(p.verdicts_hash(digest("beacon"), digest("acc"), NODES[i + 1], 1 + i % 2, v, r, a, s))}
        for i, ((v, r, s), a) in enumerate(zip(votes, (b"\0\0\0\6\0\0\xc0\xde", b"", b"\0" * 4), strict=True))
    ]  # fmt: skip
    claims = ([0], [1], [1, 0, 1, 1], [0] * 8 + [1], [0] * 255 + [1], [1] * 256)
    out["claim_word"] = [{"bits": bits, "out": u256(p.claim_word([bool(bit) for bit in bits]))} for bits in claims]
    return out


def trees() -> dict[str, list[Case]]:
    from sapo_verifier import protocol as p

    out: dict[str, list[Case]] = {}
    pairs = [(p.ZERO, p.ZERO), (digest("l"), digest("r")), (digest("r"), digest("l"))]
    out["node"] = [{"left": hexed(a), "right": hexed(b), "out": hexed(p.node_hash(a, b))} for a, b in pairs]
    chunks = [(0, 1), (0, 32), (1, 1), (2, 5)]
    out["chunk"] = [
        {"c": c, "records": hexed(records(n, "chunk")), "out": hexed(p.chunk_hash(c, records(n, "chunk")))}
        for c, n in chunks
    ]
    leaves = [(0, 1, p.ZERO), (17, 15, digest("records root")), (255, 65535, b"\xff" * 32)]
    out["leaf"] = [{"i": i, "n": n, "records_root": hexed(r), "out": hexed(p.leaf(i, n, r))} for i, n, r in leaves]
    out["records_root"] = [
        {
            "n": n,
            "records": hexed(records(n, "tree")),
            "chunks": -(-n // 32),
            "out": hexed(p.records_root(records(n, "tree"))),
        }
        for n in (1, 31, 32, 33, 64, 65)
    ]
    out["merkle"] = [tree([digest(f"leaf/{i}") for i in range(count)]) for count in (1, 2, 3, 5, 8, 9)]
    return out


def tree(leaves: list[bytes]) -> Case:
    from sapo_verifier import protocol as p

    padded = 1 << (len(leaves) - 1).bit_length()
    return {
        "leaves": list(map(hexed, leaves)),
        "out": hexed(p.merkle_root(leaves)),
        "paths": [list(map(hexed, p.merkle_path(leaves, i))) for i in range(padded)],
    }


def intervals() -> dict[str, list[Case]]:
    import numpy as np

    from sapo_verifier import intervals as iv

    out: dict[str, list[Case]] = {}
    # Where every exponential is that of 0 or of minus infinity, IEEE 754 leaves no choice; elsewhere `within` does.
    named: list[tuple[str, list[str], int, int]] = [
        ("four equal tokens", ["0"] * 4, 4, 0),
        ("one token owns everything", ["-inf", "0", "-inf"], 3, 0),
        ("token 0 alone", ["0", "-inf", "-inf"], 3, 0),
        ("zero-width tokens before, between and after", ["-inf", "1.5", "-inf", "-inf", "1.5", "-inf"], 6, 0),
        ("ids from vocab on are masked, however likely", ["0", "0", "88", "-inf"], 2, 0),
        ("the last token with p > 0 stands before masked and zero ones", ["0", "0", "-inf", "5"], 3, 0),
        ("a sum of 9 · (1/9) above 1.0 leaves the last token with p > 0 nothing", ["0"] * 9 + ["-700", "-inf"], 11, 0),
        ("a sum of 6 · (1/6) below 1.0 still ends at 2^64", ["0"] * 6, 6, 0),
        ("a sum of 6 · (1/6) below 1.0 leaves impossible tokens after it nothing", ["0"] * 6 + ["-inf", "-inf"], 8, 0),
        ("weights too small for a sum in float64 own nothing", ["0", "-60", "-80"], 3, 0),
        ("huge logits", ["3e38", "3e38", "-3e38"], 3, 0),
        ("ordinary logits", ["0.25", "-1.5", "3", "2.75", "-7", "0", "1", "-0.125"], 8, 1 << 16),
    ]
    cases = []
    for name, logits, vocab, within in named:
        e = iv.edges(np.array([float(x) for x in logits], dtype=np.float32), vocab)
        points = sorted({0, 1, 2**63, 2**64 - 1} | {x for edge in e for x in (edge - 1, edge) if 0 <= x < 2**64})
        owned = [iv.interval(e, token) for token in range(vocab)]
        owners = [{"u": u64(u), "token": iv.owner(e, u)} for u in points]
        cases.append(
            {"name": name, "logits": logits, "vocab": vocab, "within": within,
             "edges": [hex(edge) for edge in e],
             "intervals": [[hex(lo), hex(last)] if lo <= last else None for lo, last in owned],
             "owners": owners}
        )  # fmt: skip
    out["cdf"] = cases
    top = 2**64 - 1
    misses = [  # u, lo, last
        (5, 5, 5), (4, 5, 9), (9, 5, 9), (10, 5, 9), (0, top, top), (top, 0, 0), (top, 0, top), (7, 8, 7), (8, 8, 7),
    ]  # fmt: skip
    out["miss"] = [{"u": u64(u), "lo": u64(a), "last": u64(b), "out": u64(iv.miss(u, a, b))} for u, a, b in misses]
    tolerances = {"widen": iv.WIDEN_TOLERANCE, "void": iv.VOID_TOLERANCE, "reject": iv.REJECT_TOLERANCE}
    out["tolerances"] = [{"name": name, "out": u64(value)} for name, value in tolerances.items()]
    return out
