"""Networks and settings of actor-critic algorithms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from gpu_envs.utils.settings import check_settings, setting
from trainers.algorithms.learner import CentralInput
from trainers.algorithms.on_policy.estimators import Estimates, Steps, generalized, importance_weighted
from trainers.base.learner_spec import LearnerSpec
from trainers.models.action_heads import action_spec, make_head
from trainers.models.networks import Network, NetworkConfig
from trainers.models.normalization import ObservationNormalizer
from trainers.models.policy import mask_spec


@dataclass(frozen=True)
class ActorCriticConfig(NetworkConfig):
    """Settings of all actor-critic algorithms. A "step" is one step of one world, with all its agents."""

    critic_input: str = setting("obs", choices=("obs", "state"))
    """Input of the critic: each agent's "obs", or the global "state" for cooperative tasks.
    Policies always use observations."""

    squash: bool = False
    """Continuous actions only: sample from a tanh-squashed Gaussian with a state-dependent standard deviation.
    False: sample from a Gaussian with a constant standard deviation and clip to the box."""
    init_log_std: float = setting(0.0, requires={"squash": False})
    """Initial log standard deviation of continuous actions without `squash`. Lower it for less initial exploration."""
    rollout_length: int = setting(32, ge=1)
    """Steps per world between two updates. Raise it for long-delayed rewards."""
    gamma: float = setting(0.98, ge=0, le=1)
    """Discount per step, in [0, 1]. Raise it for longer horizons."""
    gae_lambda: float = setting(0.95, ge=0, le=1)
    """Decay of the advantage estimator, in [0, 1]: 0 is one-step, 1 sums all rewards of the rollout."""
    value_coef: float = setting(0.5, ge=0)
    """Weight of the value loss."""
    schedule: str = setting("linear", choices=("linear",), by_name=True)
    """Way of every setting NAME to NAME_final: "linear", or "module:NAME", a function from progress in [0, 1] to the
    share of the way."""
    max_grad_norm: float = setting(0.5, gt=0)
    """Largest global norm of gradients; longer ones are scaled down."""
    normalize_advantage: bool = True
    """Normalize the advantages of each rollout to mean 0 and standard deviation 1."""
    normalize_obs: bool = True
    """Normalize observations and states by running statistics."""
    reward_scale: float = setting(1.0, gt=0)
    """Factor of rewards before learning. Choose it so that returns are of order 1 to 10."""
    truncation_capacity: float | None = setting(None, gt=0)
    """Mean number of truncations per agent and rollout that the buffer of final observations holds.
    Fractions are rounded up. None: one more than the time limit causes, at least 2. Raise it if a rollout overflows."""

    def __post_init__(self) -> None:
        """Raise ConfigError for the first invalid setting."""
        check_settings(self, "learner.")

    def action(self, space: spaces.Space[Any]) -> dict[str, Any]:
        """Return the action specification of policies, see `trainers.models.action_heads.action_spec`."""
        return action_spec(space, self.init_log_std, "tanh_gaussian" if self.squash else "continuous")

    @property
    def central_input(self) -> CentralInput:
        """Global input of the critic, see `Learner.central_input`."""
        return "state" if self.critic_input == "state" else None

    def estimate(self, steps: Steps) -> Estimates:
        """Return advantages and returns, see `Estimates`."""
        return generalized(steps, self.gamma, self.gae_lambda)


@dataclass(frozen=True)
class VTraceConfig(ActorCriticConfig):
    """Settings of algorithms that correct returns for steps sampled with older weights, by V-trace."""

    rho_max: float = setting(1.0, gt=0)
    """Largest importance ratio of a temporal difference and of an advantage, called rho bar in the source.
    A smaller one moves returns towards the returns of the policy that sampled."""
    c_max: float = setting(1.0, gt=0)
    """Largest importance ratio that carries a difference back to earlier steps, called c bar in the source.
    A smaller one has less variance and learns more slowly."""

    def estimate(self, steps: Steps) -> Estimates:
        """Return advantages and returns by V-trace, see `Estimates`."""
        return importance_weighted(steps, self.gamma, self.gae_lambda, self.rho_max, self.c_max)


class CriticInput(nn.Module):
    """Input of a critic on the global state: the state and, for several agents, the agent's one-hot index.

    Source: Yu et al. 2022, "The Surprising Effectiveness of PPO in Cooperative Multi-Agent Games".
    """

    def __init__(self, state_width: int, num_agents: int) -> None:
        """Set the state width S and the number of agents n."""
        super().__init__()
        self.num_agents = num_agents
        self.width: int = state_width + (num_agents if num_agents > 1 else 0)
        self.normalizer: ObservationNormalizer = ObservationNormalizer(state_width)

    def forward(self, states: Tensor, agent: Tensor) -> Tensor:
        """Map states (worlds, ..., S) and agents (N,), indices over all worlds, to inputs (N, ..., S + n)."""
        features = self.normalizer(states[agent // self.num_agents])
        if self.num_agents == 1:
            return features
        code = torch.eye(self.num_agents, device=features.device)[agent % self.num_agents]
        code = code.view(len(agent), *[1] * (features.dim() - 2), self.num_agents).expand(*features.shape[:-1], -1)
        return torch.cat([features, code], -1)


class ActorCritic(nn.Module):
    """Normalizer, separate actor and critic networks of one kind, and action head."""

    def __init__(self, config: ActorCriticConfig, spec: LearnerSpec, action: dict[str, Any]) -> None:
        """Draw weights with the spec's seed; `action` as in `action_spec`."""
        super().__init__()
        weights = torch.Generator().manual_seed(spec.seed)
        self.spec: dict[str, Any] = {
            **config.spec(spec.obs_width, spec.layout),
            **mask_spec(spec.has_action_mask),
            "action": action,
        }
        head = make_head(action)
        self.normalizer: ObservationNormalizer = ObservationNormalizer(spec.obs_width, self.spec)
        self.actor: Network = Network(self.spec, head.num_params, 0.01, weights)
        if config.central_input is None:
            self.critic_input: CriticInput | None = None
            self.critic = Network(self.spec, 1, 1.0, weights, "critic")
        else:
            critic_input = CriticInput(spec.state_width, spec.num_agents)
            agents = critic_input.width - spec.state_width
            critic_spec = config.state_spec({"state": spec.state_width, "agent": agents})
            self.critic: Network = Network(critic_spec, 1, 1.0, weights, "critic")
            self.critic_input = critic_input
        self.head = head
        self.to(spec.device)
