"""Programs that some tests run and Python does not bring: `scripts/setup tools` installs them."""

import os
import shutil

import pytest

PACKAGES = {"promtool": "prometheus", "chromium-headless-shell": "chromium-headless-shell"}  # Debian's


def needs(program: str) -> pytest.MarkDecorator:
    """Skips the test with a reason where the program is not on PATH; in CI it fails there instead."""
    missing = shutil.which(program) is None and not os.environ.get("CI")
    return pytest.mark.skipif(missing, reason=f"needs {program} (Debian: {PACKAGES[program]}): scripts/setup tools")
