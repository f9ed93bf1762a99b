"""A policy's folder from what a person writes: a folder, or a model's name on the Hugging Face hub."""

import re
from pathlib import Path

from sapo_verifier.errors import UnableError, UsageError

# What a base's digest is over (folders.base_files), and what other programs want beside a policy that is saved.
FILES = ("*.safetensors", "*.safetensors.index.json", "config.json", "generation_config.json", "tokenizer*",
         "special_tokens_map.json", "vocab.json", "merges.txt", "added_tokens.json", "chat_template.jinja")  # fmt: skip
_NAME = re.compile(r"(?P<id>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@(?P<revision>[\w.-]+))?")


def model_folder(name: str) -> Path:
    """The folder; a hub's model (`owner/name`, or `owner/name@revision`) is downloaded, or taken from the hub's cache.

    Safetensors and what describes them: no code, no pickles. Raises SapoError that says what is missing.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder.resolve()
    found = _NAME.fullmatch(name)
    if found is None:
        raise UsageError(f"{name} is no folder, and no model's name on the hub, such as Qwen/Qwen2.5-0.5B-Instruct")
    return _download(found["id"], found["revision"])


def _download(repository: str, revision: str | None) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ModuleNotFoundError as error:
        raise UnableError(f"this installation has no {error.name}: `pip install sapo-network[node]`") from error
    try:
        folder = Path(snapshot_download(repository, revision=revision, allow_patterns=list(FILES)))
    except LocalEntryNotFoundError as error:
        raise UnableError(
            f"there is no folder {repository} here, the Hugging Face hub does not answer, and the model is not in its "
            "cache: connect this machine once, or copy the model's folder here and give its path"
        ) from error
    except HfHubHTTPError as error:
        raise UnableError(f"the Hugging Face hub refuses {repository}: {str(error).splitlines()[0]}") from error
    except OSError as error:
        raise UnableError(f"{repository} could not be downloaded from the Hugging Face hub: {error}") from error
    if not any(folder.glob("*.safetensors")) or not (folder / "tokenizer.json").is_file():
        raise UsageError(f"{repository} has no safetensors files or no tokenizer.json on the hub; take another model")
    return folder
