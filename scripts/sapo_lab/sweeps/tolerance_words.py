"""What the page of the sweep of tolerances says beside its tables."""

from sapo_lab.sweeps.tolerance_pass import JITTER, MADE


def head(command: str) -> str:
    """What was measured, and how."""
    return f"""# How far honest passes differ, and what tolerances that allows

    {command}

The tolerances of [protocol.md](../protocol.md#4-sampling) exist because two machines' edges differ by rounding.
*void* has to be above what honest passes differ by, and every bit above it is a free choice for a producer: where u
lies within *void* of an edge, either of two tokens passes. Here nodes' own parts make honest records, and a process
for each setting recomputes them; *any two* is the largest difference between any two of the settings from which a
record or a verdict can come. Differences are those of edges, as probabilities; rows.jsonl in the sweep's folder has
them in parts of 2⁶⁴. *× 4*: a policy with four times its base's logits. *adapter*: one of rank 16, trained for some
steps on its own text. *{MADE}*: one thread, everything that the processor has. *decode*: token by token over a cache,
as the engine samples; no records come from it. *jitter*: one float32 pass with every weight times 1 + ε, ε uniform in
±{JITTER:.1e}: what a failure has to survive if only stable ones count. *float64*: all of the pass but the rotary
angles, which are float32 in every pass. All settings are of one processor; another maker's, and a graphics card, are
not among them.
"""


SHARPER = """A widened record is off by up to *widen* more, so *void* has to stay above *widen* plus the differences.

What would become of a policy that is sharper than a bound bears? Its honest records are off by more than *void* on some
settings, and far below *reject*: its batches end void and unpaid where voters' machines differ from its own, and it is
not slashed. Rounding is not rejected either where only stable failures count: *jitter* moves such edges further than
honest settings do, so what it moves beyond *void* is ill-conditioned, and void. A tighter *void* calls more policies
ill-conditioned, and takes from producers of all others what they could choose; of a flat policy, most of whose tokens
are narrower than any candidate, it takes little.
"""

U32 = """## Bounds of 32 bits

Could a record hold `lo >> 32` and `last >> 32`, 12 bytes in place of 20? Rounded outward, `lo` down and `last` up to
the end of its block of 2³² numbers:

- *sampling*: an honest u stays inside. Neighbours share the block of their common edge, so either is legal for a u in
  it: 2⁻³² = 2.3e-10 for each edge, 1.1e-5 of a position if all 49,152 tokens of a vocabulary had a block of their
  own. It lies within *void* of the edge, where the same choice is free already; nothing is gained by it.
- *the fraud proof* `u < lo or u > last`: an honest record stays safe, as its interval only grows. A false token is
  missed by it only where u falls into a shared block.
- *tokens below 2⁻³²* own no block; their record says one or two, and many of them share it. A token that owns nothing
  is rejected all the same: a verifier finds that in its own pass, which computes in 64 bits, and not in the record.
- *the weight*: the width grows by less than 2⁻³¹ = 4.7e-10, so p_theirs by 5e-6 of itself at p = 1e-4, 0.05 % at
  1e-6, 5 % at 1e-8, and without limit below 2⁻³²: always upwards, so that min(1, p_mine / p_theirs) only falls.
  Rounding between honest passes is thousands of times that.
- *size*: 40 % of the records. A batch of 128 completions of 256 tokens has 655 kB of them, and would have 393 kB; the
  adapter of rank 16 that is fetched beside it has 19.5 MB.

So nothing that is checked needs the low 32 bits, and they could go. They stay: it is another layout of leaves for the
contracts' proofs, for 1.3 % of what an auditor fetches of such a policy. Records that are improbable, in this sweep:
"""
