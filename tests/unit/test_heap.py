"""Memory that was freed is given back, though something small between it lives on."""

import gc

import torch

from sapo_client.policy.heap import give_back
from sapo_devnet.processes import resident_kib


def test_freed_tensors_leave_the_process() -> None:
    size = 1 << 16  # below what malloc maps by itself
    tensors = [torch.zeros(size // 4) for _ in range(1024)]
    kept = tensors[::64]
    full = resident_kib("VmRSS")
    del tensors
    gc.collect()
    give_back()
    assert full - resident_kib("VmRSS") > 40 << 10
    assert all(int(tensor.sum()) == 0 for tensor in kept)
