"""Multi-Agent Transformer (MAT): PPO for a team whose agents act one after another, given earlier actions.

Source: Wen et al. 2022, "Multi-Agent Reinforcement Learning is a Sequence Modeling Problem". By the chain rule the
advantage A of the joint action is a sum of advantages of the agents' actions, each given the earlier actions:

    A(o, a^1, ..., a^n) = sum_m A^m(o, a^1, ..., a^{m-1}, a^m)

So a policy that chooses a^m given a^1, ..., a^{m-1} can improve agent by agent. An encoder reads the observations of
all agents and predicts a value for each, a decoder chooses the actions. Rollouts decode agent by agent; the loss
decodes all agents at once, with the stored actions as the earlier ones. All agents have the advantage of the joint
action, whose baseline is the mean of their values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import setting
from trainers.algorithms.on_policy.actor_critic import ActorCritic, ActorCriticConfig
from trainers.algorithms.on_policy.advantages import compute_in_slices
from trainers.algorithms.on_policy.estimators import Steps
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.gradients import LOCAL_REDUCER, GradientReducer
from trainers.base.learner_spec import LearnerSpec, ObservationLayout
from trainers.models.action_heads import make_head
from trainers.models.networks import ACTIVATIONS, Network, actor_width, team_inputs, with_ids
from trainers.models.normalization import ObservationNormalizer
from trainers.models.policy import mask_spec
from trainers.models.transformer import LINEAR, Transformer


@dataclass(frozen=True)
class MATConfig(PPOConfig):
    """Settings of MAT. A "step" is one step of one world, with all its agents."""

    network: str = setting("transformer", choices=("transformer",))
    """Kind of network, see `trainers.models.transformer`."""
    hidden_sizes: tuple[int, ...] = setting((64,), ge=1, le=2**16)
    """Width of embeddings, once for each block of the encoder and of the decoder; all equal."""
    activation: str = setting("gelu", choices=tuple(ACTIVATIONS))
    """Activation function of the perceptrons: "tanh", "relu" or "gelu"."""
    num_heads: int = setting(1, ge=1)
    """Heads of attention, which divide the width."""
    learning_rate: float = setting(5e-4, gt=0)
    """Step size of Adam at the start. Lower it if training is unstable."""

    def spec(self, obs_width: int, layout: ObservationLayout | None = None) -> dict[str, Any]:
        """Return the arguments of `Network` as JSON data, see `NetworkConfig.spec`."""
        return {**super().spec(obs_width, layout), "num_heads": self.num_heads}


class TeamActorCritic(ActorCritic):
    """Normalizer, transformer, action head, and a critic on the transformer's encoded observations."""

    def __init__(self, config: ActorCriticConfig, spec: LearnerSpec, action: dict[str, Any]) -> None:
        """Draw weights with the spec's seed; `action` as in `action_spec`."""
        nn.Module.__init__(self)
        weights = torch.Generator().manual_seed(spec.seed)
        self.spec = {
            **config.spec(spec.obs_width, spec.layout),
            **mask_spec(spec.has_action_mask),
            "action": action,
            "ids": spec.num_agents,
        }
        self.head = make_head(action)
        self.normalizer = ObservationNormalizer(spec.obs_width)
        self.actor = Network(actor_width(self.spec), self.head.num_params, LINEAR, weights)
        width = config.hidden_sizes[0]
        critic_spec = {**config.state_spec({"state": width}), "hidden_sizes": [width]}
        self.critic_input = None
        self.critic = Network(critic_spec, 1, LINEAR, weights, "critic")
        self.to(spec.device)


class MAT(PPO):
    """Learner of MAT for a team, the n agents of its policy.

    The team's reward is the mean of its agents' rewards, which is each agent's reward if they share one. A dead agent
    gets no reward and no loss, and the others do not attend to it. The team's episode ends when its last agent's does.
    """

    net_type = TeamActorCritic
    hides_dead: bool = True
    """Dead agents must observe zeros, see `trainers.models.policy.Policy`."""

    def __init__(self, config: MATConfig, spec: LearnerSpec) -> None:
        """Build networks and buffers; raise ConfigError if agents take turns."""
        if spec.turn_based:
            raise ConfigError("mat: expected agents that all act at every step, got turns or decide_every; use ppo")
        super().__init__(config, spec)
        self.transformer: Transformer = self.actor.module

    @torch.no_grad()
    def act(
        self, obs: Tensor, mask: Tensor | None = None, to_move: Tensor | None = None, state: Tensor | None = None
    ) -> Tensor:
        """Sample actions (E, n) or (E, n, K), agent by agent; arguments as in `Learner.act`."""
        obs, mask = self.rollout.begin_step(obs, mask)
        action, params = self.transformer.act(self._inputs(obs), mask, self.head, self.stream)
        self.rollout.store_action(action, self.head.evaluate(params, action, mask)[0])
        return self.head.to_env(action)

    @torch.no_grad()
    def batch(self, reducer: GradientReducer = LOCAL_REDUCER, fixed_shapes: bool = False) -> dict[str, Tensor]:
        """Return the rollout's decisions with values and advantages, one row per step and world, (N, n, ...).

        "valid" (N, n) marks the decisions to learn from. Steps without one are left out, unless `fixed_shapes` is set;
        the host then does not synchronize with the device.
        """
        r, c = self.rollout, self.config
        if not fixed_shapes:
            r.check()
        inputs = self._inputs(r.obs)
        goes_on = r.valid & ~(r.terminated | r.truncated)
        is_cut = (r.valid & r.truncated & ~r.terminated).any(-1)
        ends, remains = ~goes_on.any(-1), r.valid & ~r.terminated
        next_inputs = self._inputs(r.next_obs().masked_fill(~remains.unsqueeze(-1), 0.0))
        value, next_value = (
            compute_in_slices(self._values, x.flatten(0, 1)).view_as(r.reward) for x in (inputs, next_inputs)
        )
        team_value, team_next = _mean(value, r.valid), _mean(next_value, remains)
        steps = Steps(
            reward=r.reward.masked_fill(~r.valid, 0.0).mean(-1) * c.reward_scale,
            value=team_value,
            last_value=team_next[-1],
            final_value=team_next,
            terminated=ends & ~is_cut,
            truncated=ends & is_cut,
            valid=r.valid.any(-1),
            to_move=None,
        )
        advantage, returns = (x.unsqueeze(-1).expand_as(r.reward) for x in c.estimate(steps)[:2])
        if c.normalize_advantage:
            flat = reducer.normalize(advantage.flatten(), r.valid.flatten())
            advantage = flat.view_as(r.reward).masked_fill(~r.valid, 0.0)
        batch = {"raw_obs": r.obs, "obs": inputs, "advantage": advantage, "returns": returns, "valid": r.valid}
        batch |= {"action": r.action, "log_prob": r.log_prob, "value": value}
        if r.mask is not None:
            batch["mask"] = r.mask[:-1]
        batch = {name: tensor.flatten(0, 1) for name, tensor in batch.items()}
        rows = torch.arange(len(batch["obs"]), device=r.device)
        if not fixed_shapes:
            rows = batch["valid"].any(-1).nonzero().squeeze(-1)
            batch = {name: tensor[rows] for name, tensor in batch.items()}
        return batch | {"rows": rows * r.valid.shape[2]}

    def _inputs(self, obs: Tensor) -> Tensor:
        """Return the inputs (..., n, D + n) of the transformer from observations (..., n, D)."""
        return team_inputs(with_ids(self.normalizer(obs), self.transformer.num_agents), obs)

    def _values(self, inputs: Tensor) -> Tensor:
        """Return the agents' values (N, n) of inputs (N, n, D + n)."""
        return self.critic(self.transformer.encode(inputs)).squeeze(-1)

    def _outputs(self, part: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the parameters (B, n, P) of the distributions over actions and the values (B, n) of a minibatch."""
        encoded = self.transformer.encode(part["obs"])
        code = self.head.encode(self.head.to_env(part["action"]))
        params = self.transformer.decode(part["obs"], encoded, code)
        return params, self.critic(encoded).squeeze(-1)


def _mean(values: Tensor, valid: Tensor) -> Tensor:
    """Return the means (T, E) over valid agents of values (T, E, n); 0 without one."""
    return values.masked_fill(~valid, 0.0).sum(-1) / valid.sum(-1).clamp(min=1)
