"""Where this checkout is: what is built into it, and what is kept in it between runs."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"  # where this package and the lab can be imported from
CACHE = ROOT / ".cache"
# This package is also installed without one; then nothing above has a meaning.
IS_CHECKOUT = Path(__file__).resolve().is_relative_to(SCRIPTS) and (ROOT / "pyproject.toml").is_file()
