"""`sapo init`, as tests have it make a home: of a network that is nowhere, with a key that costs nothing."""

from pathlib import Path

from sapo_client import cli


def init(home: Path, deployment: Path, password: Path, *more: str) -> int:
    words = ["init", "--home", str(home), "--deployment", str(deployment), "--policy", str(home.parent / "model")]
    words += ["--base", "pocket", "--endpoint", "/dns4/node.example.org/tcp/443/https"]
    (home.parent / "model").mkdir(parents=True, exist_ok=True)
    return cli.main([*words, "--password-file", str(password), "--light-key", "--offline", *more])
