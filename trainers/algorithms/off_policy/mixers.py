"""Mixers of VDN, QMIX and QPLEX: the value of a team's joint action from the values of its agents.

They are called with the values (..., n) of the agents' actions and the state (..., S), or None. QPLEX's also gets the
values (..., n) of each agent's best action, and the actions (..., n, choices), one-hot. Agents without an action have
zeros. They return team values (...).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from trainers.models.networks import mlp


class VDNMixer(nn.Module):
    """Mixer of VDN: a sum."""

    def forward(self, value: Tensor, state: Tensor | None) -> Tensor:
        """Sum over agents."""
        return value.sum(-1)


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

    def forward(self, value: Tensor, state: Tensor) -> Tensor:
        """Mix the values of the actions."""
        weights = self.first(state).abs().unflatten(-1, (self.agents, -1))
        hidden = nn.functional.elu((value.unsqueeze(-2) @ weights).squeeze(-2) + self.first_bias(state))
        team = (hidden * self.second(state).abs()).sum(-1) + self.second_bias(state).squeeze(-1)
        return team.to(state.dtype)  # autocast returns bfloat16


class QPLEXMixer(nn.Module):
    """Mixer of QPLEX: weighted values, and advantages whose weights depend on the joint action.

    With positive weights w_i and biases b_i, functions of the state, V_i = w_i max Q_i + b_i and
    A_i = w_i (Q_i - max Q_i), the team value is sum_i (V_i + lambda_i A_i). The weights lambda_i > 0 are a sum over the
    attention heads: the head's weight times a weight of the agent, both functions of the state, times a weight of the
    agent in the joint action. Since A_i <= 0, and 0 for best actions, the best joint action is that of the agents. As
    in the authors' code, gradients of lambda_i - 1 do not reach the agents' values. The heads share a hidden layer.

    Source: Wang et al. 2021, "QPLEX: Duplex Dueling Multi-Agent Q-Learning", eq. 8 to 11.
    """

    def __init__(
        self, agents: int, choices: int, state_width: int, width: int, heads: int, generator: torch.Generator
    ) -> None:
        """Build n agents with their choices, state width S, hidden width and heads; a CPU generator draws weights."""
        super().__init__()
        self.heads = heads

        def network(inputs: int, outputs: int, start: float) -> nn.Sequential:
            """Build a network whose outputs are near `start`, in any state."""
            built = mlp([inputs, width, outputs], "relu", 0.1, generator)
            nn.init.constant_(built[-1].bias, start)  # pyright: ignore[reportArgumentType]
            return built

        # at the start the team value is about the sum of the agents' values: w = 1, and lambda = heads * w_h / 2 / 2
        self.weight: torch.nn.Sequential = network(state_width, agents, 1.0)
        self.bias: torch.nn.Sequential = network(state_width, agents, 0.0)
        self.head_weight: torch.nn.Sequential = network(state_width, heads, 4 / heads)
        self.agent_weight: torch.nn.Sequential = network(state_width, heads * agents, 0.0)
        self.action_weight: torch.nn.Sequential = network(state_width + agents * choices, heads * agents, 0.0)

    def forward(self, value: Tensor, state: Tensor, best: Tensor, action: Tensor) -> Tensor:
        """Mix values and advantages."""
        weight = self.weight(state).abs() + 1e-10
        advantage = (weight * (value - best)).detach()
        values = weight * value + self.bias(state) * action.sum(-1)  # V_i + A_i; an agent without an action adds 0
        team = (values + (self.advantage_weight(action, state) - 1.0) * advantage).sum(-1)
        return team.to(state.dtype)  # autocast returns bfloat16

    def advantage_weight(self, action: Tensor, state: Tensor) -> Tensor:
        """Return the weights lambda (..., n) of the advantages."""
        joint = torch.cat([state, action.flatten(-2)], -1)
        head = self.head_weight(state).abs().unsqueeze(-1) + 1e-10
        per_head = self.agent_weight(state).sigmoid() * self.action_weight(joint).sigmoid()
        return (head * per_head.unflatten(-1, (self.heads, -1))).sum(-2)


Mixer = VDNMixer | QMIXMixer | QPLEXMixer
"""Mixer of a learner."""
