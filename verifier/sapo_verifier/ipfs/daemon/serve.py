"""`sapo ipfs`: a small daemon that keeps raw blocks on disk and speaks Kubo's RPC and the trustless gateway.

It replaces Kubo on one machine and in small networks. It prints one line when it is ready, and ends with status 0 on
SIGTERM and SIGINT.
"""

import argparse
import contextlib
import ipaddress
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from sapo_verifier.errors import SapoError


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the daemon until a signal. Returns the exit status: 0 stopped, else that of why it could not start."""
    parser = argparse.ArgumentParser(prog="sapo ipfs", description="Keep blocks on disk and serve them.")
    add_options(parser)
    arguments = parser.parse_args(argv)
    try:
        return serve(arguments)
    except SapoError as error:
        print(f"sapo ipfs: {error}", file=sys.stderr)
        return error.exit_status


def serve(arguments: argparse.Namespace) -> int:
    """Until a signal. Raises SapoError where the daemon cannot start."""
    # Imported here: aiohttp takes a while, and --help must not.
    import asyncio

    return asyncio.run(_serve(arguments))


def add_options(parser: argparse.ArgumentParser) -> None:
    """What `serve` reads."""
    parser.add_argument("--repo", type=Path, required=True, help="folder of the blocks; made if missing")
    parser.add_argument(
        "--api", type=_address, default=("127.0.0.1", 5001), metavar="HOST:PORT",
        help="RPC, for this node only (default 127.0.0.1:5001; port 0 takes a free one)",
    )  # fmt: skip
    parser.add_argument(
        "--gateway", type=_address, default=("127.0.0.1", 8080), metavar="HOST:PORT",
        help="gateway, for the peers (default 127.0.0.1:8080; to serve others give 0.0.0.0:PORT)",
    )  # fmt: skip
    parser.add_argument(
        "--peer", action="append", default=[], metavar="MULTIADDR",
        help="another gateway to ask for blocks, e.g. /dns4/example.org/tcp/443/https (repeatable)",
    )  # fmt: skip
    parser.add_argument("--allow-private", action="store_true", help="accept peers on private and loopback addresses")
    parser.add_argument("--max-connections", type=int, default=128, metavar="N", help="per listener (default 128)")
    parser.add_argument(
        "--idle-seconds", type=float, default=15.0, metavar="S", help="close silent connections (default 15)"
    )
    parser.add_argument(
        "--request-seconds", type=float, default=60.0, metavar="S", help="time for one request (default 60)"
    )
    parser.add_argument(
        "--fetch-seconds", type=float, default=20.0, metavar="S", help="time to ask peers for one block (default 20)"
    )
    parser.add_argument(
        "--exit-with-stdin", action="store_true", help="end when standard input closes (the parent is gone)"
    )


def _address(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not host or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, e.g. 127.0.0.1:5001 or [::1]:5001")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if host != "localhost":
            raise argparse.ArgumentTypeError(f"{host!r} is no IP address; give the address to listen on") from None
        host = "127.0.0.1"
    return host, int(port)


async def _serve(arguments: argparse.Namespace) -> int:
    import asyncio
    import signal

    from sapo_verifier import net
    from sapo_verifier.ipfs.daemon.gateway_server import GatewayServer
    from sapo_verifier.ipfs.daemon.peers import Peers
    from sapo_verifier.ipfs.daemon.repo import BlockRepo
    from sapo_verifier.ipfs.daemon.rpc_server import RpcServer
    from sapo_verifier.ipfs.errors import RepoError
    from sapo_verifier.net.listener import Limits, Listener

    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    peers = Peers(allow_private=arguments.allow_private, timeout=arguments.fetch_seconds)
    for multiaddr in arguments.peer:
        peers.add(multiaddr)
    repo = BlockRepo(arguments.repo)
    gateway = GatewayServer(repo)
    rpc = RpcServer(repo, peers, gateway)
    limits = Limits(arguments.max_connections, arguments.idle_seconds, arguments.request_seconds)
    listeners: list[Listener] = []
    ports: list[int] = []
    try:
        for option, app in (("api", rpc.app()), ("gateway", gateway.app())):
            listener = Listener(app, limits)
            listeners.append(listener)
            host, port = getattr(arguments, option)
            try:
                ports.append(await listener.start(host, port))
            except OSError as error:
                raise RepoError(
                    f"cannot listen on {host}:{port} ({error.strerror or error}); is it in use? Give another --{option}"
                ) from error
        if not ipaddress.ip_address(arguments.api[0]).is_loopback:
            print("sapo ipfs: warning: the RPC has no password; keep strangers away from --api", file=sys.stderr)
        api_url, gateway_url = _url(arguments.api[0], ports[0]), _url(arguments.gateway[0], ports[1])
        print(f"sapo ipfs ready api={api_url} gateway={gateway_url} repo={arguments.repo}", flush=True)
        if arguments.exit_with_stdin:
            _watch_stdin(lambda: loop.call_soon_threadsafe(stop.set))
        await stop.wait()
    finally:
        peers.close()
        rpc.close()
        net.abort_all()
        for listener in listeners:
            await listener.stop()
        repo.close()
    return 0


def _watch_stdin(closed: Callable[[], object]) -> None:
    def work() -> None:
        # OSError: there was no standard input. RuntimeError: the daemon has ended already.
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                continue
        with contextlib.suppress(RuntimeError):
            closed()

    threading.Thread(target=work, name="stdin", daemon=True).start()


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


if __name__ == "__main__":
    sys.exit(main())
