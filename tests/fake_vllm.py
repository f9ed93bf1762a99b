"""A process that speaks as the one that runs vLLM does, and computes nothing: for what vLLM cannot be made to do.

How it behaves is in the file `behaviour` of its folder; every start adds a line to `starts` there.
"""

import json
import os
import sys
import time
from pathlib import Path

from sapo_verifier.version import __version__


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if message["do"] == "start":
            folder = Path(message["folder"]).parent
            how = (folder / "behaviour").read_text()
            with (folder / "starts").open("a") as file:
                file.write("start\n")
            if how == "dies at the start":
                sys.exit("no such kernel")
            if how == "refuses":
                say(error="ValueError: this architecture is unknown")
                return
            say(ok={"sapo": "9.9.9" if how == "is another version" else __version__, "vllm": "0.32.0", "device": "cpu"})
        elif message["do"] == "generate":
            if how == "dies":
                print("out of memory", file=sys.stderr, flush=True)
                os._exit(7)
            if how == "reports an error":
                say(error="RuntimeError: engine dead")
                return
            if how == "hangs":
                time.sleep(60)
            if how == "is slow":
                for _ in range(4):
                    time.sleep(0.3)
                    say(alive=1)
            counts = [1 if how == "stops early" else row["most"] for row in message["rows"]]
            say(ok={"tokens": [[5] * count for count in counts], "preemptions": 0, "cached": 0})
        else:
            say(ok={})


def say(**words: object) -> None:
    print(json.dumps(words), flush=True)


if __name__ == "__main__":
    main()
