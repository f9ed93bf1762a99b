"""A folder with a base's files and nothing in them: it has a digest, and no model."""

from pathlib import Path


def bare_base(folder: Path, **more: str) -> Path:
    """The folder, made. more: contents of config, tokenizer or weights that are not `{}`."""
    folder.mkdir(parents=True, exist_ok=True)
    names = {"config": "config.json", "tokenizer": "tokenizer.json", "weights": "model.safetensors"}
    for word, name in names.items():
        (folder / name).write_text(more.get(word, "{}"))
    return folder
