"""The networks of actor-critics, whose critic sees what an agent sees, or the global state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from trainers.bodies import BodyConfig, Network
from trainers.heads import action_spec, make_head
from trainers.learner import Central
from trainers.nets import ObservationNormalizer
from trainers.problem import Problem
from trainers.settings import check_settings, setting


@dataclass(frozen=True)
class ActorCriticConfig(BodyConfig):
    """Settings of every actor-critic. A "step" is one step of one world, whatever the number of its agents."""

    critic: str = setting("obs", ("obs", "state"))
    """What the critic values: an agent's own "obs", or the global "state"; policies see observations all the same."""

    squash: bool = False
    """Continuous actions from a Gaussian in every state's own spread, squashed into the box by tanh; else from one of
    the same spread everywhere, clipped to the box."""
    init_log_std: float = setting(0.0, needs={"squash": False})
    """Log standard deviation that the latter starts from."""
    rollout_length: int = setting(32, ">= 1")
    """Steps per world between two updates, T."""
    gamma: float = setting(0.98, "in [0, 1]")
    """Discount per step."""
    gae_lambda: float = setting(0.95, "in [0, 1]")
    """Decay of the advantage estimator: 0 is one-step, 1 sums all rewards of the rollout."""
    value_coef: float = setting(0.5, ">= 0")
    """Weight of the value loss."""
    max_grad_norm: float = setting(0.5, "> 0")
    """Gradients are scaled down to this global norm."""
    normalize_advantage: bool = True
    """Give the advantages of a rollout mean 0 and standard deviation 1, over valid rows."""
    normalize_obs: bool = True
    """Normalise observations, and states, by running statistics over valid rows."""
    reward_scale: float = setting(1.0, "> 0")
    """Multiplies rewards before learning: choose it so that returns are of order 1 to 10."""
    truncation_capacity: float | None = setting(None, "> 0")
    """Truncations per agent and rollout that the buffer of final observations has room for, on average over agents;
    if None, one more than the time limit can bring about, and at least 2."""

    def __post_init__(self) -> None:
        """Raises ConfigError on the first bad value."""
        check_settings(self, "learner.")

    def action(self, space: spaces.Space[Any]) -> dict[str, Any]:
        """The head of policies, see `trainers.heads.action_spec`."""
        return action_spec(space, self.init_log_std, "tanh_gaussian" if self.squash else "continuous")

    @property
    def central(self) -> Central:
        """As `Learner.central`."""
        return "state" if self.critic == "state" else None


class Outlook(nn.Module):
    """What a critic on the global state values: the state and, of several agents, which one is meant (one-hot).

    Source: Yu et al. 2022, "The Surprising Effectiveness of PPO in Cooperative Multi-Agent Games".
    """

    def __init__(self, state_width: int, num_agents: int) -> None:
        """Args are S and n."""
        super().__init__()
        self.num_agents = num_agents
        self.width = state_width + (num_agents if num_agents > 1 else 0)
        self.normalizer = ObservationNormalizer(state_width)

    def forward(self, states: Tensor, agent: Tensor) -> Tensor:
        """States (worlds, ..., S), of those of agents (N,), counted through all worlds -> (N, ..., S + n)."""
        seen = self.normalizer(states[agent // self.num_agents])
        if self.num_agents == 1:
            return seen
        who = torch.eye(self.num_agents, device=seen.device)[agent % self.num_agents]
        who = who.view(len(agent), *[1] * (seen.dim() - 2), self.num_agents).expand(*seen.shape[:-1], -1)
        return torch.cat([seen, who], -1)


class ActorCritic(nn.Module):
    """Normaliser, actor, critic and action head. Actor and critic are separate networks with bodies of one kind."""

    def __init__(self, config: ActorCriticConfig, problem: Problem, action: dict[str, Any]) -> None:
        """Draws weights from the problem's seed; `action` as `action_spec`."""
        super().__init__()
        weights = torch.Generator().manual_seed(problem.seed)
        self.spec = {**config.spec(problem.obs_width), "action": action}
        head = make_head(action)
        self.normalizer = ObservationNormalizer(problem.obs_width)
        self.actor = Network(self.spec, head.num_params, 0.01, weights)
        if config.central is None:
            self.outlook = None
            self.critic = Network(self.spec, 1, 1.0, weights)
        else:
            outlook = Outlook(problem.state_width, problem.num_agents)
            body = "mlp" if config.body == "cnn" else config.body  # the state is no picture
            self.critic = Network({**config.spec(outlook.width), "body": body}, 1, 1.0, weights)
            self.outlook = outlook
        self.head = head
        self.to(problem.device)
