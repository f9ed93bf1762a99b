"""What earns without work, if anything does: copies of the question, lists of everything, and the true answer bent.

`meaning` is a second opinion on `sapo_verifier.tasks.reading`: what an answer means, written with other tools, and
wider, as it need not be safe or the same on every machine.
"""

import ast
import re
from collections.abc import Hashable
from fractions import Fraction

PLACES = (0, 1, 2, 3, -1, -2, -3, -4)  # of a line, a word or a number, from the front and from the back
LAST_LINES = range(2, 12)

ENUMERATIONS = {
    "1 to 60": " ".join(map(str, range(1, 61))),
    "1 to 60, in lines": "\n".join(map(str, range(1, 61))),
    "[1, …, 60]": str(list(range(1, 61))),
    "every digit": "0123456789",
    "every letter": "abcdefghijklmnopqrstuvwxyz",
    "every weekday": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "every small fraction": " ".join(f"{a}/{b}" for b in range(2, 12) for a in range(1, b)),
    "every small matrix row": "\n".join(f"{i >> 2 & 1} {i >> 1 & 1} {i & 1}" for i in range(8)),
    "nothing": "",
    "a blank": " ",
}


def echoes(question: str) -> dict[str, str]:
    """Answers that are parts of the question, each named by where it stands; needs no idea of the task."""
    lines = [line for line in question.split("\n") if line.strip()]
    words = [word.strip(".,:;?!") for word in question.split()]
    numbers = re.findall(r"-?\d+(?:\.\d+)?", question)
    made = {"the question": question, "after the last colon": question.rsplit(":", 1)[-1].strip()}
    for what, parts in (("line", lines), ("word", words), ("number", numbers)):
        for place in PLACES:
            if -len(parts) <= place < len(parts):
                made[f"{what} {place}"] = parts[place]
    for count in LAST_LINES:
        made[f"the last {count} lines"] = "\n".join(lines[-count:])
    made["its numbers"] = " ".join(numbers)
    made["its numbers as a list"] = f"[{', '.join(numbers)}]"
    made["the end as a list"] = f"[{lines[0].rsplit(':', 1)[-1].strip()}]"
    return made


def near(truth: str) -> dict[str, str]:
    """The true answer, changed in one small way. Some are right all the same; `meaning` says which."""
    made = {
        "one unit more": bumped(truth, 1),
        "one unit less": bumped(truth, -1),
        "another sign": truth.removeprefix("-") if truth.startswith("-") else f"-{truth}",
        "a plus": f"+{truth}",
        "upper case": truth.upper(),
        "lower case": truth.lower(),
        "a blank before": f" {truth}",
        "a blank after": f"{truth} ",
        "a line after": f"{truth}\n",
        "no blanks": truth.replace(" ", ""),
        "two blanks for one": truth.replace(" ", "  "),
        "tabs for blanks": truth.replace(" ", "\t"),
        "lines for blanks": truth.replace(" ", "\n"),
        "in brackets": f"[{truth}]",
        "in braces": f"({truth})",
        "in quotes": f'"{truth}"',
        "no brackets": truth.strip("[]"),
        "twice": f"{truth}{truth}",
        "twice, with a blank": f"{truth} {truth}",
        "twice, in lines": f"{truth}\n{truth}",
        "with an excuse": f"the answer is {truth}",
        "backwards": truth[::-1],
        "without the first": truth[1:],
        "without the last": truth[:-1],
        "a nought more": f"{truth}0",
        "a point more": f"{truth}.",
        "with places": f"{truth}.0",
        "as a power": f"{truth}e0",
        "in wide digits": truth.translate({ord("0") + i: 0xFF10 + i for i in range(10)}),
        "over one": f"{truth}/1",
        "doubled fraction": re.sub(r"\d+", lambda found: str(2 * int(found[0])), truth, count=2),
    }
    for places in (0, 1, 2):
        made[f"rounded to {places}"] = re.sub(r"\d+\.\d+", lambda found, n=places: f"{float(found[0]):.{n}f}", truth)  # type: ignore[misc]
    for at, digit in enumerate(truth[:40]):
        if digit.isdigit():
            made[f"another digit {at}"] = f"{truth[:at]}{(int(digit) + 1) % 10}{truth[at + 1 :]}"
        elif digit.isalpha():
            made[f"another letter {at}"] = f"{truth[:at]}{'x' if digit != 'x' else 'y'}{truth[at + 1 :]}"
    items = truth.split(", ")
    if len(items) > 1:
        made["first two exchanged"] = ", ".join([items[1], items[0], *items[2:]])
    return made


def bumped(text: str, by: int) -> str:
    """The last number in a text, off by one in its last digit."""
    found = list(re.finditer(r"\d+(?:\.\d+)?", text))
    if not found:
        return text + "x"
    last = found[-1]
    places = len(last[0].partition(".")[2])
    value = Fraction(last[0]) + Fraction(by, 10**places)
    return f"{text[: last.start()]}{float(value):.{places}f}{text[last.end() :]}"


def meaning(dataset: str, answer: str) -> Hashable | None:
    """What an answer means, None where it means nothing; two answers are equally right if they mean the same."""
    try:
        if dataset == "spell_backward":
            return answer.encode().lower() or None
        if dataset == "decimal_arithmetic":
            return Fraction(answer) if re.search(r"[^-.0-9]", answer) is None else None
        if dataset == "fraction_simplification":
            parts = re.sub(r"\\d?frac|[${\s]", "", answer).replace("}", "/").rstrip("/").split("/")
            return (int(parts[0]), int(parts[1])) if len(parts) == 2 else None
        if dataset == "number_sorting":
            value = ast.literal_eval(answer.strip())
            return tuple(Fraction(str(item)) for item in value) if isinstance(value, list) else None
    except (ValueError, SyntaxError, ZeroDivisionError):
        return None
    return answer or None
