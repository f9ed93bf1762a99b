"""The chain rules that every spec in the tests has, where a test does not care."""

from typing import Any

BOND = 10**18

MONEY: dict[str, Any] = {
    "bond": hex(BOND),
    "dispute_bond": hex(BOND // 20),
    "missed_batch_fee": hex(BOND // 50),
    "missed_reveal_fee": hex(BOND // 50),
    "wrong_verdict_penalty": hex(BOND // 20),
    "withheld_fee": hex(BOND // 10),
    "supply": hex(10**6 * 10**18),
    "initial_pool": hex(10**3 * 10**18),
    "halving_rounds": 500,
    "auditors_share": 1_000,
    "max_per_unit": hex(10**18),
    "max_per_verdict": hex(50 * 10**18),
}
