"""Mixers of VDN and QMIX: the team value as a function of the agents' values."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from trainers.models.networks import mlp

__all__ = ["QMIXMixer", "VDNMixer"]


class VDNMixer(nn.Module):
    """Mixer of VDN: a sum."""

    def forward(self, values: Tensor, state: Tensor | None) -> Tensor:
        """Sum (..., n) over agents."""
        return values.sum(-1)


class QMIXMixer(nn.Module):
    """Mixer of QMIX: a network of two layers whose nonnegative weights are linear functions of the state.

    At the start the team value rises with each agent's value with a slope of about 1, as VDN's does, whatever the
    widths. With slopes of 10 and more the values grow without bound in SMAX-v0.

    Source: Rashid et al. 2018, "QMIX: Monotonic Value Function Factorisation", section 4 and figure 2.
    """

    def __init__(self, agents: int, state_width: int, width: int, generator: torch.Generator) -> None:
        """Build n agents, state width S and hidden width; a CPU generator draws the weights."""
        super().__init__()
        self.agents = agents

        def weights(outputs: int) -> nn.Sequential:
            """Build a layer whose absolute outputs are about sqrt(1 / width) for a normalized state."""
            gain = math.sqrt(math.pi / (2 * width)) * max(1.0, math.sqrt(outputs / state_width))
            return mlp([state_width, outputs], "relu", gain, generator)

        self.first: torch.nn.Sequential = weights(agents * width)
        self.first_bias: torch.nn.Sequential = mlp([state_width, width], "relu", 1.0, generator)
        self.second: torch.nn.Sequential = weights(width)
        self.second_bias: torch.nn.Sequential = mlp([state_width, width, 1], "relu", 1.0, generator)

    def forward(self, values: Tensor, state: Tensor) -> Tensor:
        """Map values (..., n) and states (..., S) to team values (...)."""
        weights = self.first(state).abs().unflatten(-1, (self.agents, -1))
        hidden = nn.functional.elu((values.unsqueeze(-2) @ weights).squeeze(-2) + self.first_bias(state))
        team = (hidden * self.second(state).abs()).sum(-1) + self.second_bias(state).squeeze(-1)
        return team.to(state.dtype)  # autocast returns bfloat16
