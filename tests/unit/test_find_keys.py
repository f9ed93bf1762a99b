"""The private-key detector finds each kind of key, and lets digests pass."""

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "find-keys"
HEX = "ab" * 32


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN EC PRIVATE " + "KEY-----\n",
        'PRIVATE_KEY = "0x' + HEX + '"',
        "export SECRET=" + HEX,
        '{"crypto": {"ciphertext": "' + HEX + '"}}',
    ],
)
def test_finds(tmp_path, text):
    file = tmp_path / "config"
    file.write_text(text)
    found = subprocess.run([SCRIPT, file], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert str(file) in found.stdout


def test_lets_digests_pass(tmp_path):
    file = tmp_path / "vectors.json"
    file.write_text('{"digest": "0x' + HEX + '", "key": "stream", "root": "' + HEX + '"}')
    assert subprocess.run([SCRIPT, file], check=False).returncode == 0
