"""Which reasoning-gym 0.1.25 datasets may pay, which may not, and why (docs/protocol.md, Rewards of completions).

A dataset is allowed only if its output is the same in every process and one answer alone is right, in a form that
tasks/readings.py reads; tests/unit/test_tasks_hostile.py tries to break each of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sapo_verifier.errors import TaskError

CATALOGUE: dict[str, str] = {
    "arc_1d": "text",
    "base_conversion": "text",
    "basic_arithmetic": "text",
    "bf": "text",
    "binary_matrix": "text",
    "caesar_cipher": "text",
    "calendar_arithmetic": "text",
    "count_bits": "text",
    "count_primes": "text",
    "decimal_arithmetic": "decimal",
    "fraction_simplification": "fraction",
    "gcd": "text",
    "lcm": "text",
    "leg_counting": "text",
    "number_sorting": "numbers",
    "rotate_matrix": "text",
    "spell_backward": "letters",
    "string_manipulation": "text",
    "word_sequence_reversal": "text",
}
"""How an answer to each dataset that may pay is read: a name in tasks/readings.py."""

_HASH_SEED = "its output depends on PYTHONHASHSEED: two machines would deal different questions"
_EVALUATES = "only its own scorer knows what is right, and runs answers as code: a completion could take over"
_RAISES = "only its own scorer knows what is right, and raises on odd answers"

NOT_PAYABLE: dict[str, str] = {
    "acre": "its items depend on `size`, and not on the seed alone",
    "boxnet": _RAISES,
    "coin_flip": "heads or tails: a constant earns half",
    "complex_arithmetic": "only its own scorer knows what is right, and gives 'nan' 1.0",
    "countdown": _EVALUATES,
    "course_schedule": "true or false: a constant earns more than half",
    "game_of_life": _RAISES,
    "game_of_life_halting": "true or false: a constant earns half, and its scorer gives junk 1.0",
    "gsm_symbolic": "its items do not follow from the seed alone",
    "intermediate_integration": _EVALUATES,
    "isomorphic_strings": _HASH_SEED,
    "knight_swap": _HASH_SEED,
    "list_functions": "its items do not follow from the seed alone",
    "n_queens": _EVALUATES,
    "polynomial_multiplication": _HASH_SEED,
    "prime_factorization": _RAISES,
    "propositional_logic": "echoing the first premise scores 1.0 in two thirds of the questions",
    "puzzle24": _EVALUATES,
    "ransom_note": _HASH_SEED,
    "simple_integration": _EVALUATES,
    "spiral_matrix": _EVALUATES,
    "string_insertion": _EVALUATES,
    "syllogism": "yes or no: a constant earns most of it",
    "word_ladder": _HASH_SEED,
}

PAPER_DATASETS = (
    "base_conversion",
    "basic_arithmetic",
    "arc_1d",
    "bf",
    "propositional_logic",
    "fraction_simplification",
    "decimal_arithmetic",
    "calendar_arithmetic",
    "binary_matrix",
)
"""The nine of arXiv 2509.08721, section 5.1. propositional_logic is in NOT_PAYABLE."""


def _rule(name: str, **config: Any) -> dict[str, Any]:
    return {"name": name, "config": config, "weight": 1}


# A recurring event may have no day; leap years are a coin's toss.
CALENDAR_TASKS = [
    "weekday_offset",
    "weekday_of_date",
    "weekday_of_date_from_first_date",
    "count_days",
    "count_business_days",
]

_PAPER_CONFIGS: dict[str, dict[str, Any]] = {
    "base_conversion": {"min_value": 1},  # the library writes 0 as nothing, which no answer can equal
    "calendar_arithmetic": {"tasks": ["count_business_days"]},  # a weekday is right in a seventh of the others
    # One step, and every sum, difference and product to its last digit: a model need not guess where to round.
    "decimal_arithmetic": {"min_num_decimal_places": 2, "max_num_decimal_places": 2, "max_terms": 2, "precision": 6},
}

PAPER_TASKS: list[dict[str, Any]] = [
    _rule(name, **_PAPER_CONFIGS.get(name, {})) for name in PAPER_DATASETS if name not in NOT_PAYABLE
]
"""Task rules of the spec (name, config, weight) for real models: what may pay of the paper's nine.

Here and in POCKET_TASKS no constant is right in more than one question in twenty (docs/results/scorers.md).
"""

POCKET_TASKS: list[dict[str, Any]] = [
    _rule(
        "basic_arithmetic",
        min_terms=2,
        max_terms=2,
        min_digits=1,
        max_digits=2,
        operators=["+", "-", "*"],
        allow_parentheses=False,
        allow_negation=False,
    ),
    _rule("base_conversion", min_base=2, max_base=5, min_value=1, max_value=63),
    _rule(
        "decimal_arithmetic", min_num_decimal_places=1, max_num_decimal_places=1, min_terms=2, max_terms=2, precision=4
    ),
    _rule("fraction_simplification", min_value=1, max_value=30, min_factor=2, max_factor=5, styles=["plain"]),
    _rule("binary_matrix", min_n=3, max_n=3, p_zero={"decimal": "0.3"}),
    _rule("spell_backward", min_word_len=3, max_word_len=5),
    _rule(
        "number_sorting",
        min_numbers=4,
        max_numbers=4,
        min_decimals=0,
        max_decimals=0,
        min_value=0,
        max_value=99,
    ),
]
"""Task rules of the spec for the pocket policy: small enough for a 343k-parameter model to learn."""

_RESERVED = {"seed", "size", "data_file"}  # the first two are the deal's; the last names a file to read


def check_rule(name: str, config: Mapping[str, Any]) -> None:
    """Refuse a dataset, or a configuration of it, that must not pay.

    Raises TaskError, which says why.
    """
    if reason := NOT_PAYABLE.get(name):
        raise TaskError(f"dataset {name!r} may not pay: {reason}; take it out of the spec's tasks")
    if name not in CATALOGUE:
        known = ", ".join(CATALOGUE)
        raise TaskError(f"dataset {name!r} is not on the allow-list; choose from {known}")
    if taken := sorted(_RESERVED & config.keys()):
        raise TaskError(f"dataset {name!r}: {', '.join(taken)} cannot be configured; remove it from the spec")
    if name == "calendar_arithmetic":
        _check_calendar(config.get("tasks"))


def _check_calendar(tasks: Sequence[str] | None) -> None:
    if not tasks or not set(tasks) <= set(CALENDAR_TASKS):
        raise TaskError(
            f"dataset 'calendar_arithmetic': tasks is {tasks!r}; only {CALENDAR_TASKS} may pay "
            "(a recurring event may have no day, and leap years are a coin's toss)"
        )


def plain_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A rule's configuration as the dataset takes it: {"decimal": "0.5"} becomes 0.5."""
    return {key: _plain(value) for key, value in config.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return float(value["decimal"]) if set(value) == {"decimal"} else plain_config(value)
    return [_plain(item) for item in value] if isinstance(value, list) else value
