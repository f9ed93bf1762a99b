"""How the simulation's tables write numbers."""

from collections.abc import Iterable, Sequence


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def percent(share: float) -> str:
    """Never rounded to 0 or 100 % if it is not."""
    if share in (0, 1):
        return "100 %" if share else "0 %"
    digits = 0 if 0.1 <= share <= 0.9 else 1 if 0.005 <= share <= 0.995 else 2
    text = f"{100 * share:.{digits}f} %"
    if float(text[:-2]) in (0, 100):
        return "> 99.99 %" if share > 0.5 else "< 0.01 %"
    return text


def scientific(p: float) -> str:
    """Small probabilities with their exponents; zero is below 1e-15 or impossible."""
    if p < 1e-15:
        return "0"
    return f"{p:.1e}" if p < 1e-3 else percent(p)


def whole(share: float) -> str:
    """A share that is a whole percentage."""
    return f"{share:.0%}".replace("%", " %")


def members(nodes: int, share: float) -> int:
    """How many nodes a share is: the nearest number, at least one."""
    return max(1, round(share * nodes)) if share else 0
