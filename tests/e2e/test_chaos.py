"""A sample of `scripts/chaos`: nodes get over what befalls them, and say nothing that is not so."""

import subprocess

from sapo_devnet.checkout import ROOT

SAMPLE = "2,000 gwei|20 blocks under"


def test_a_sample_of_the_faults() -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "chaos", "--only", SAMPLE], capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 faults of 2, 0 not as they should be" in done.stdout


def test_a_fault_that_does_not_exist() -> None:
    done = subprocess.run([ROOT / "scripts" / "chaos", "--only", "moon"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no fault's words match 'moon'" in done.stderr
