"""Adam that is created without a part of PyTorch's compiler."""

import torch
from torch import nn

from trainers.base.optimizers import make_adam


def test_adam_accepts_parameters_where_pytorch_does_not_wrap_their_addition(monkeypatch):
    """Versions of PyTorch differ in whether they wrap it."""
    add = torch.optim.Optimizer.add_param_group
    plain = getattr(add, "__wrapped__", add)
    assert not hasattr(plain, "__wrapped__")
    parameter = nn.Parameter(torch.ones(2))
    for function in (add, plain):
        monkeypatch.setattr(torch.optim.Optimizer, "add_param_group", function)
        assert make_adam([parameter], 0.1, captured=False).param_groups[0]["params"] == [parameter]
