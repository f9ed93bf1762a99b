"""The application: its pages, and what is answered where one fails."""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from sapo_verifier.errors import SapoError, UsageError
from sapo_verifier.pages.rendering import render
from sapo_verifier.pages.safety import HOSTS, SafeHeaders
from sapo_verifier.pages.site import Site

PAGES: Sequence[BaseRoute] = ()


def make_app(site: Site) -> Starlette:
    """The pages of a site that is entered."""
    app = Starlette(
        routes=[
            Route("/", home),
            *PAGES,
            Mount("/static", StaticFiles(packages=[("sapo_verifier", "pages/static")])),
        ],
        middleware=[Middleware(SafeHeaders), Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)],
        exception_handlers={SapoError: refused, HTTPException: not_found},
    )
    app.state.site = site
    return app


def home(request: Request) -> HTMLResponse:
    """Rounds, pay and alarms."""
    with request.app.state.site.chain() as reader:
        return render(request, "home.html", source=reader.source, current=reader.current_round())


def refused(request: Request, error: Exception) -> HTMLResponse:
    """What was asked wrongly (400), or is not to be had now (404)."""
    return render(request, "error.html", 400 if isinstance(error, UsageError) else 404, words=str(error))


def not_found(request: Request, error: Exception) -> HTMLResponse:
    """An address that no page has, or a method that it does not take."""
    assert isinstance(error, HTTPException)
    return render(request, "error.html", error.status_code, words=f"{error.detail}: {request.url.path}")
