"""Arrays of results are used again once nothing refers to them, and never before."""

import numpy as np
import pytest
import torch

from gpu_envs.runtime.factory import make_core
from gpu_envs.utils.spare_arrays import MOST_SPARES, SpareArrays

HOLDERS = {
    "tensor": lambda tensor: tensor,
    "view": lambda tensor: tensor[:, 0],
    "array": lambda tensor: tensor.numpy(),
    "view of an array": lambda tensor: tensor.numpy()[1:, :1],
    "detached tensor": lambda tensor: tensor.view(-1).detach(),
    "tensor by DLPack": torch.from_dlpack,
    "array by DLPack": np.from_dlpack,
    "tensor of an array": lambda tensor: torch.from_numpy(tensor.numpy()),
    "parameter": lambda tensor: torch.nn.Parameter(tensor, requires_grad=False),
    "graph of a gradient": lambda tensor: (torch.ones_like(tensor, requires_grad=True) * tensor).sum(),
}


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
def test_array_is_spare_once_nothing_refers_to_it(hold):
    spares = SpareArrays(np.zeros((4, 3), np.float32))
    holder = hold(torch.from_numpy(spares.take()))
    first = address(spares._spares[0])
    assert address(spares.take()) != first
    del holder
    assert address(spares.take()) == first


def test_few_spare_arrays_are_kept():
    spares = SpareArrays(np.zeros(4))
    used = [spares.take() for _ in range(10)]
    assert len({address(array) for array in used}) == 10
    assert len(spares._spares) == MOST_SPARES


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
def test_later_steps_do_not_change_what_refers_to_a_result(hold):
    core = make_core("CartPole-v1", 512, "cpu", seed=0, threads=2)
    core.reset()
    results = []
    for _ in range(8):
        obs = core.step(core.sample_actions())[0]
        results.append((hold(obs), obs.tolist()))
    for holder, values in results:
        if isinstance(holder, torch.Tensor) and holder.requires_grad:
            (saved,) = [tensor for tensor in (holder.grad_fn.next_functions[0][0]._saved_other,) if tensor is not None]
            assert saved.tolist() == values
        else:
            assert np.array_equal(np.asarray(holder), np.asarray(hold(torch.tensor(values))))
