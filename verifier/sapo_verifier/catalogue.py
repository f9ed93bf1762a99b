"""Which reasoning-gym 0.1.25 datasets may pay, which may not, and why (docs/protocol.md, Rewards of completions).

A dataset is allowed only if its output is the same in every process, its scorer is total and fast, and no answer but
a right one scores exactly 1.0; tests/unit/test_tasks_hostile.py tries to break each of them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sapo_verifier.errors import TaskError


@dataclass(frozen=True)
class Dataset:
    """Why a dataset may pay, and which answers reach its scorer at all.

    `answers` is matched against the whole answer, ASCII classes only; what does not match is worth 0.0 unseen. It
    stands where the library's scorer is unsafe or wrong on text that no right answer can be.
    """

    why: str
    answers: re.Pattern[str] | None = None


EXACT = "scorer: equal to the true answer, or below 1.0"

CATALOGUE: dict[str, Dataset] = {
    "arc_1d": Dataset(EXACT),
    "base_conversion": Dataset(EXACT),
    "basic_arithmetic": Dataset(EXACT),
    "bf": Dataset(EXACT),
    # The scorer calls eval() on the answer, which would hand the verifier to whoever wrote it. Only digits and
    # blanks get there; what eval() makes of those never scores 1.0.
    "binary_matrix": Dataset("scorer: equal to the true matrix, or at most 0.1", re.compile(r"[0-9 \n]*")),
    "caesar_cipher": Dataset(EXACT),
    # Huge numbers overflow a float in the scorer. Counts of days within a year have three digits at most.
    "calendar_arithmetic": Dataset(
        "scorer: the weekday, or exactly the number; without recurring events",
        re.compile(r"[A-Za-z]{1,16}|-?[0-9]{1,3}"),
    ),
    "count_bits": Dataset(EXACT),
    "count_primes": Dataset(EXACT),
    "decimal_arithmetic": Dataset("scorer: a decimal within one unit of the last place asked for"),
    # After a fraction in LaTeX the scorer takes any filler.
    "fraction_simplification": Dataset(
        "scorer: the reduced numerator and denominator",
        re.compile(r"[ $]*(?:\\d?frac *\{ *[0-9]+ *\} *\{ *[0-9]+ *\}|[0-9]+ */ *[0-9]+)[ $]*"),
    ),
    "gcd": Dataset(EXACT),
    "lcm": Dataset(EXACT),
    "leg_counting": Dataset(EXACT),
    # [NaN,NaN,NaN] is sorted and near everything for the scorer: letters do not get there. (An exponent's e does.)
    "number_sorting": Dataset(
        "scorer: a JSON list in order, each number within 1 of the true one",
        re.compile(r"[-+0-9.eE,\[\]'\" \t\n\r]*"),
    ),
    "rotate_matrix": Dataset(EXACT),
    "spell_backward": Dataset("scorer: equal but for case"),
    "string_manipulation": Dataset(EXACT),
    "word_sequence_reversal": Dataset(EXACT),
}

_HASH_SEED = "its output depends on PYTHONHASHSEED: two machines would deal different questions"
_EVALUATES = "its scorer evaluates the answer as code: a completion could take over the verifier"
_RAISES = "its scorer raises on odd answers"

NOT_PAYABLE: dict[str, str] = {
    "acre": "its items depend on `size`, and not on the seed alone",
    "boxnet": _RAISES,
    "coin_flip": _RAISES,
    "complex_arithmetic": "its scorer gives 'nan' 1.0",
    "countdown": _EVALUATES,
    "course_schedule": "true or false: a constant earns more than half",
    "game_of_life": _RAISES,
    "game_of_life_halting": "its scorer gives junk 1.0",
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


# With recurring events the true answer may be -1, on which the scorer overflows; leap years are a coin's toss.
CALENDAR_TASKS = [
    "weekday_offset",
    "weekday_of_date",
    "weekday_of_date_from_first_date",
    "count_days",
    "count_business_days",
]

_PAPER_CONFIGS: dict[str, dict[str, Any]] = {
    "base_conversion": {"min_value": 1},  # the library writes 0 as nothing, which no answer can equal
    "calendar_arithmetic": {"tasks": CALENDAR_TASKS},
}

PAPER_TASKS: list[dict[str, Any]] = [
    _rule(name, **_PAPER_CONFIGS.get(name, {})) for name in PAPER_DATASETS if name not in NOT_PAYABLE
]
"""Task rules of the spec (name, config, weight) for real models: what may pay of the paper's nine."""

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
    _rule("decimal_arithmetic", min_num_decimal_places=1, max_num_decimal_places=1, min_terms=2, max_terms=2),
    _rule("fraction_simplification", min_value=1, max_value=12, min_factor=2, max_factor=6, styles=["plain"]),
    _rule("binary_matrix", min_n=2, max_n=3, p_zero={"decimal": "0.35"}),
    _rule("count_bits", min_n=1, max_n=255),
    _rule("spell_backward", min_word_len=3, max_word_len=5),
    _rule("gcd", min_numbers=2, max_numbers=2, min_value=1, max_value=60),
    _rule(
        "number_sorting",
        min_numbers=3,
        max_numbers=3,
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
            "(the scorer overflows on recurring events, and leap years are a coin's toss)"
        )


def may_score(name: str, answer: str) -> bool:
    """Whether an answer reaches the dataset's scorer; one that does not is worth 0.0."""
    pattern = CATALOGUE[name].answers
    return pattern is None or pattern.fullmatch(answer) is not None


def plain_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A rule's configuration as the dataset takes it: {"decimal": "0.5"} becomes 0.5."""
    return {key: _plain(value) for key, value in config.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return float(value["decimal"]) if set(value) == {"decimal"} else plain_config(value)
    return [_plain(item) for item in value] if isinstance(value, list) else value
