"""What `import sapo_verifier` gives: light, typed, without torch. tests/e2e/test_verify.py verifies a batch by it."""

import json
import subprocess
import sys

import pytest

import sapo_verifier


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_importing_loads_nothing_and_the_names_load_no_torch() -> None:
    loaded = python(
        "import sys, json, sapo_verifier; dir(sapo_verifier)\n"
        "heavy = ('pydantic', 'web3', 'aiohttp', 'torch', 'transformers', 'reasoning_gym')\n"
        "before = [name for name in heavy if name in sys.modules]\n"
        "for name in sapo_verifier.__all__: getattr(sapo_verifier, name)\n"
        "print(json.dumps([before, [name for name in heavy if name in sys.modules]]))"
    )
    before, after = json.loads(loaded)
    assert before == []
    assert "web3" in after
    assert not {"torch", "transformers", "reasoning_gym"} & set(after)


def test_public_names_are_the_modules_own() -> None:
    assert sapo_verifier.__all__ == sorted(sapo_verifier.__all__)
    for name in set(sapo_verifier.__all__) - {"__version__"}:
        assert getattr(sapo_verifier, name).__name__ == name
        assert getattr(sapo_verifier, name).__doc__
    assert set(sapo_verifier.__all__) <= set(dir(sapo_verifier))
    with pytest.raises(AttributeError, match="has no attribute 'verfiy_batch'"):
        sapo_verifier.verfiy_batch  # type: ignore[attr-defined]  # noqa: B018


def test_what_is_not_installed_is_said() -> None:
    said = python(
        "import sys; sys.modules['pydantic'] = None\n"
        "import sapo_verifier\n"
        "try: sapo_verifier.Deployment\n"
        "except sapo_verifier.SapoError as error: print(error)"
    )
    assert said.startswith("this installation has no pydantic, and sapo_verifier.Deployment needs it")
