"""An HTTP server on loopback that is posted to, for tests of who posts."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "key-in-the-url"


class Receiver:
    """Takes what is posted, with the next of the statuses; the last one stays."""

    def __init__(self, *statuses: int) -> None:
        self.statuses, self.taken = list(statuses), list[dict[str, Any]]()
        self.tries = 0


@contextmanager
def receiving(receiver: Receiver) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.tries += 1
            status = receiver.statuses.pop(0) if len(receiver.statuses) > 1 else receiver.statuses[0]
            if status == 200:
                receiver.taken.append(json.loads(body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://user:{SECRET}@127.0.0.1:{server.server_port}/{SECRET}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
