"""From reports to HTML: Jinja's templates with everything escaped, and filters for what peers wrote and chains hold."""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from sapo_verifier.chain.errors import coins
from sapo_verifier.version import __version__

MAX_SHOWN = 20_000  # characters of one text that a peer wrote


def peer(text: object, most: int = MAX_SHOWN) -> Markup:
    """What somebody else wrote: cut, what does not print visible as an escape, and in an element that keeps its
    direction to itself. Line breaks stay."""
    words = str(text)
    cut = f"… ({len(words)} characters)" if len(words) > most else ""
    shown = Markup("").join(_visible(c) for c in words[:most])
    return Markup('<bdi class="peer">{}</bdi>{}').format(shown, cut)


def _visible(character: str) -> Markup:
    if character == "\n" or character.isprintable():
        return escape(character)
    return Markup('<span class="control">{}</span>').format(character.encode("unicode_escape").decode())


def short(name: str) -> str:
    """An address, hash or CID that fits a cell."""
    return name if len(name) <= 14 else f"{name[:8]}…{name[-4:]}"


@cache
def environment() -> Environment:
    """The templates."""
    made = Environment(
        loader=PackageLoader("sapo_verifier", "pages/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"peer": peer, "short": short, "coins": coins}
    made.globals |= {"version": __version__}
    return made


def render(request: Request, template: str, status: int = 200, /, **values: Any) -> HTMLResponse:
    """A page. Every template extends base.html and may use `site` beside `values`."""
    text = environment().get_template(template).render(site=request.app.state.site, **values)
    return HTMLResponse(text, status)
