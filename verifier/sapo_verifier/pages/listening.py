"""The server: uvicorn on 127.0.0.1 alone."""

import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from sapo_verifier.errors import UnableError

HOST = "127.0.0.1"


def listen(app: ASGIApp, port: int, tell: Callable[[str], None]) -> None:
    """Serves until SIGINT or SIGTERM. port: 0 takes a free one; tell: the URL, once it listens.

    Raises UnableError where the port is taken."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except (OSError, OverflowError) as error:
            raise UnableError(f"cannot listen on {HOST}:{port}: {error}; choose another with --port") from error
        listener.listen()
        tell(f"http://{HOST}:{listener.getsockname()[1]}/")
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, lifespan="off")
        uvicorn.Server(config).run(sockets=[listener])
