"""The Lightning script learns something visible."""

import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[2] / "examples"))


def test_the_example_learns():
    import lightning_ppo

    torch.set_num_threads(1)
    returns = lightning_ppo.train(iterations=34, device="cpu")
    assert len(returns) == 34
    assert sum(returns[-3:]) > 2 * sum(returns[:3])
