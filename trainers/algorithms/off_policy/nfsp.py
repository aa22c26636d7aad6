"""Neural fictitious self-play (NFSP, Heinrich and Silver 2016) for agents that share one policy.

Source: "Deep Reinforcement Learning from Self-Play in Imperfect-Information Games", arXiv 1603.01121. DQN learns an
approximate best response from all steps. The average policy learns by supervised learning to act as the best responses
so far did, from a reservoir of their decisions. It is the learner's policy: exported, evaluated and saved.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from gpu_envs.utils.settings import setting
from trainers.algorithms.off_policy.dqn import DQN, DQNConfig
from trainers.algorithms.off_policy.q_learning import explore
from trainers.base.learner_spec import LearnerSpec
from trainers.base.optimizers import make_adam
from trainers.base.random_streams import derive_seed, uniform
from trainers.base.state import State
from trainers.buffers.replay_buffer import Fields
from trainers.buffers.reservoir_buffer import ReservoirBuffer
from trainers.models.action_heads import CategoricalHead, action_spec
from trainers.models.networks import Network
from trainers.models.normalization import masked_mean


@dataclass(frozen=True)
class NFSPConfig(DQNConfig):
    """Settings of NFSP. A "step" is one step of one world, with all its agents."""

    anticipatory_param: float = setting(0.1, ge=0, le=1)
    """Probability that an agent plays an episode by its best response and not by its average policy, eta in the source.
    Raise it to fill the reservoir faster; the opponents then differ more from their average policies."""
    reservoir_size: int = setting(2_000_000, ge=1)
    """Capacity of the reservoir [decisions of each agent in all worlds]. Lower it if memory is short."""
    average_learning_rate: float = setting(1e-3, gt=0)
    """Step size of Adam for the average policy."""
    learning_rate_final: float = setting(1e-3, ge=0)
    """Step size of Adam for the best response after `total_steps`, reached along `schedule`. The best
    response must follow the opponents' average policies to the end."""
    replay_size: int = setting(200_000, ge=1)
    """Capacity of the replay of the best response [steps of worlds]. Lower it if memory is short."""
    gamma: float = setting(1.0, ge=0, le=1)
    """Discount per decision, in [0, 1]."""
    normalize_obs: bool = False
    """Normalize observations by running statistics. The replay and the reservoir store them unchanged."""
    epsilon: float = setting(0.06, ge=0, le=1)
    """Probability of a random action of the best response at the start."""
    epsilon_final: float = setting(0.001, ge=0, le=1)
    """Probability of a random action of the best response at the end."""
    epsilon_fraction: float = setting(1.0, gt=0, le=1)
    """Fraction of `total_steps` over which `epsilon` falls linearly to `epsilon_final`."""


class NFSP(DQN):
    """Learner of NFSP. At the start of an episode every agent chooses between best response and average policy."""

    kernel_methods = ("act", "observe")

    def __init__(self, config: NFSPConfig, spec: LearnerSpec) -> None:
        """Build networks and buffers; raise ConfigError as DQN, and if the reservoir does not fit."""
        super().__init__(config, spec)
        self.anticipatory_param: float = config.anticipatory_param
        self.response: Network = self.actor
        self.response.check_feedforward("nfsp", "mlp or cnn")
        self.spec: dict[str, Any] = {**self.spec, "action": action_spec(spec.action_space)}
        self.head: CategoricalHead = CategoricalHead(self.spec["action"]["sizes"], multi=False)
        weights = torch.Generator().manual_seed(derive_seed(spec.seed, 1))
        self.actor: Network = Network(self.spec, self.head.num_params, 0.01, weights).to(self.device)
        parts = {"normalizer": self.normalizer, "actor": self.actor}
        self.net: nn.ModuleDict = nn.ModuleDict({**parts, "response": self.response, "response_target": self.target})
        self.optimizers["average"] = make_adam(
            self.actor.parameters(), config.average_learning_rate, spec.captured, eps=1e-5
        )
        shape, choices = (spec.num_envs, spec.num_agents), self.head.num_params
        fields: Fields = {"obs": ((spec.obs_width,), torch.float32), "action": ((), torch.int64)}
        if spec.has_action_mask:
            fields = {**fields, "mask": ((choices,), torch.bool)}
        self.reservoir: ReservoirBuffer = ReservoirBuffer(config.reservoir_size, shape, fields, self.device, spec.shard)
        self.response_steps: Tensor = torch.zeros((config.rollout_length, *shape), dtype=torch.bool, device=self.device)
        """(T, E, n), agents that acted by the best response at each step of the rollout."""
        self.is_response: Tensor = torch.zeros_like(self.response_steps[0])
        """(E, n), agents that play their present episode by the best response."""

    @cached_property
    def reason_for_torch(self) -> str:
        """Why PyTorch computes rollouts; raise ConfigError if the engine is "kernel"."""
        return self.learner_spec.reason_for_torch("rollouts", "agents act by two networks", str)

    @property
    def q_network(self) -> Network:
        """Network of action values: the best response."""
        return self.response

    @torch.no_grad()
    def act(
        self,
        obs: Tensor,
        mask: Tensor | None = None,
        to_move: Tensor | None = None,
        state: Tensor | None = None,
    ) -> Tensor:
        """Return actions (E, n), epsilon-greedy ones of best responses; arguments as in `Learner.act`."""
        t, stream = self.rollout.t, self.stream
        obs, mask = self.rollout.begin_step(obs, mask, to_move)
        coin = uniform(obs[..., 0], stream)
        begins = self.rollout.episode_starts[t].unsqueeze(1)
        self.is_response.copy_(torch.where(begins, coin < self.anticipatory_param, self.is_response))
        self.response_steps[t].copy_(self.is_response)
        inputs = self.normalizer(obs)
        response = explore(self.q_head.values(self.response(inputs)), mask, self.epsilon, stream)
        average = self.head.sample(self.actor(inputs, mask), stream, mask)[0]
        action = torch.where(self.is_response, response, average)
        self.rollout.store_action(action)
        return action

    def _store_rollout(self) -> None:
        r = self.rollout
        decisions = {"obs": r.obs, "action": r.action}
        if r.mask is not None:
            decisions["mask"] = r.mask[:-1]
        self.reservoir.add(decisions, self.decided & self.response_steps, self.stream)
        super()._store_rollout()

    def _minibatch_step(self, move_target: bool) -> dict[str, Tensor]:
        """Take one step of Adam on each of the two networks."""
        return super()._minibatch_step(move_target) | self._average_step()

    def _value_loss(self, value: Tensor, target: Tensor) -> Tensor:
        """Return squared errors (B, n): in games of chance a value is a mean, which a Huber loss would miss."""
        return nn.functional.mse_loss(value, target, reduction="none")

    def _average_step(self) -> dict[str, Tensor]:
        """Take one step of the average policy on the cross-entropy of decisions of best responses (B,)."""
        c, reservoir = self.config, self.reservoir
        slot, env, agent = reservoir.draw(c.batch_size, self.generator)
        slot, env, indices = reservoir.local_places(slot, env)
        index = (slot, env, agent if indices is None else agent[indices])
        sampled = {name: buffer[index] for name, buffer in reservoir.buffers.items()}
        mask = sampled.get("mask")
        is_known = (reservoir.counts.sum() > 0).expand(slot.shape)
        logits = self.actor(self.normalizer(sampled["obs"]), mask)
        log_prob, entropy = self.head.evaluate(logits, sampled["action"], mask)
        count = self.reducer.divisor(is_known)
        loss = -masked_mean(log_prob, is_known, count)
        grad_norm = self.reducer.step(self.optimizers["average"], loss, c.max_grad_norm)
        metrics = {"average_loss": loss.detach(), "average_entropy": masked_mean(entropy.detach(), is_known, count)}
        return metrics | {"average_grad_norm": grad_norm}

    def _replay_tensors(self) -> list[Tensor]:
        return [*super()._replay_tensors(), *self.reservoir.buffers.values(), self.reservoir.counts]

    def _carried(self) -> dict[str, Tensor]:
        carried = {"is_response": self.is_response, "episode_starts": self.rollout.episode_starts[0]}
        return {**super()._carried(), **carried}

    def _replay_state(self) -> State:
        return {**super()._replay_state(), **self.reservoir.state_dict()}

    def _load_replay(self, state: State) -> None:
        super()._load_replay(state)
        self.reservoir.load_state_dict(state)
