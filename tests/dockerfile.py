"""The Dockerfile, read and played without docker: its commands really run, in a folder instead of an image."""

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Step:
    """One instruction, its lines joined."""

    name: str  # in capitals
    words: str


@dataclass
class Stage:
    """What stands between a FROM and the next. base: the image. name: what later stages call it by, or ""."""

    base: str
    name: str
    steps: list[Step] = field(default_factory=list)


def read(file: Path) -> list[Stage]:
    """Raises ValueError at a line that is none of an image's file."""
    stages: list[Stage] = []
    lines = [line for line in file.read_text().splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines():
        found = re.fullmatch(r"([A-Z]+) (.+)", line.strip())
        if found is None:
            raise ValueError(f"no instruction: {line}")
        name, words = found.groups()
        if name == "FROM":
            base, _, stage = words.partition(" AS ")
            stages.append(Stage(base, stage))
        else:
            stages[-1].steps.append(Step(name, words))
    return stages


class Played:
    """All stages, each with a root folder of its own. Paths of the image are found by `path`."""

    def __init__(self, file: Path, root: Path, places: tuple[str, ...]) -> None:
        """places: the image's folders that commands may name, such as /opt/sapo; all else is the machine's."""
        self.context, self.root, self.places = file.parent, root, places
        for stage in read(file):
            self._play(stage)

    def path(self, inside: str) -> Path:
        """The last stage's, of which the others' are parts: the same place holds what COPY --from would bring."""
        return self.root / inside.lstrip("/")

    def _play(self, stage: Stage) -> None:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.root)}
        environment |= {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
        folder = self.root
        for step in stage.steps:
            if step.name in ("ARG", "ENV"):
                for word in shlex.split(step.words):
                    name, _, value = word.partition("=")
                    environment[name] = self._mapped(value.replace("$PATH", environment["PATH"]))
            elif step.name == "WORKDIR":
                folder = self.path(step.words)
                folder.mkdir(parents=True, exist_ok=True)
            elif step.name == "COPY" and not step.words.startswith("--from"):
                self._copy(shlex.split(step.words), folder)
            elif step.name == "RUN":
                subprocess.run(
                    ["sh", "-e", "-c", self._mapped(step.words)], cwd=folder, env=environment, check=True, timeout=600
                )

    def _copy(self, words: list[str], folder: Path) -> None:
        *sources, target = words
        for source in sources:
            to = folder / target / Path(source).name if target.endswith("/") else folder / target
            if (self.context / source).is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
                shutil.copytree(self.context / source, to, ignore=ignored, dirs_exist_ok=True)
            else:
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.context / source, to)

    def _mapped(self, words: str) -> str:
        for place in self.places:
            words = words.replace(place, str(self.path(place)))
        return words
