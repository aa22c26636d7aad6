"""Deep Q-learning (DQN, Mnih et al. 2015) for agents that share one policy; independent Q-learning for several agents.

Extensions, each with a setting: double Q-learning (van Hasselt et al. 2016), dueling networks (Wang et al. 2016),
n-step returns and prioritized replay (Schaul et al. 2016); see Hessel et al. 2018, "Rainbow".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import check_settings, setting
from trainers.algorithms.learner import CentralInput
from trainers.algorithms.off_policy.kernel_actor import KernelActing
from trainers.algorithms.off_policy.q_learning import QConfig, best_value, explore, linear_schedule
from trainers.algorithms.off_policy.replay_learner import mean_metrics
from trainers.base.captured_updates import CapturedUpdates
from trainers.base.gradients import LOCAL_REDUCER, GradientReducer
from trainers.base.learner_spec import LearnerSpec
from trainers.base.optimizers import make_adam, set_learning_rate
from trainers.base.random_streams import SingleStream, stream_of_shard
from trainers.base.serialization import check_tensors
from trainers.base.state import State, load_state, save_state, select_prefix
from trainers.base.transition import Transition
from trainers.buffers.replay_buffer import PRIORITY, Fields, ReplayBuffer
from trainers.buffers.returns import n_step
from trainers.buffers.rollout_buffer import RolloutBuffer, final_obs_capacity
from trainers.models.action_heads import GreedyHead, greedy_spec
from trainers.models.networks import Network, polyak_update, target_copy
from trainers.models.normalization import ObservationNormalizer, masked_mean
from trainers.models.policy import Policy, freeze_policy, mask_spec

__all__ = ["DQN", "DQNConfig"]


@dataclass(frozen=True)
class DQNConfig(QConfig):
    """Settings of DQN."""

    n_step: int = setting(1, ge=1)
    """Number of rewards summed before bootstrapping. Raise it to propagate rewards faster; 1 in turn-based games."""
    dueling: bool = False
    """Use a dueling network: the last layer outputs a state value and advantages."""
    prioritized: bool = False
    """Sample steps by their last value error instead of uniformly."""
    priority_alpha: float = setting(0.6, ge=0, le=1, requires={"prioritized": True})
    """Exponent of the error in sampling probabilities, in [0, 1]; 0 is uniform."""
    priority_beta: float = setting(0.4, ge=0, le=1, requires={"prioritized": True})
    """Exponent of importance weights at the start, in [0, 1]; it reaches 1 after `total_steps`."""

    def __post_init__(self) -> None:
        """Raise ConfigError for the first invalid setting."""
        check_settings(self, "learner.")
        if self.network == "gru":
            raise ConfigError("learner.network: expected 'mlp' or 'cnn' for dqn and iql, got 'gru'; use qmix or ppo")


class DQN(KernelActing):
    """Learner of DQN. `update` moves the rollout's steps to the replay and takes gradient steps.

    In turn-based games, the reward of a decision is the sum of its agent's rewards until its next decision or the end
    of its episode. The replay stores it at the step that completes it. Decisions whose episode is cut have no known
    outcome and are left out. With action masks the same holds for steps that were cut, as the legal actions after them
    are unknown.
    """

    central_input: CentralInput = None
    reducer: GradientReducer = LOCAL_REDUCER
    kernel_methods = ("act", "observe")
    exploration = ("epsilon",)

    def __init__(self, config: DQNConfig, spec: LearnerSpec) -> None:
        """Build networks and buffers; raise ConfigError if DQN does not support the spec or the replay does not fit."""
        if spec.turn_based and config.n_step > 1:
            raise ConfigError(f"learner.n_step: expected 1 for turn-based games, got {config.n_step}")
        self.config: DQNConfig = config
        self.learner_spec = spec
        self.total_steps: int = spec.total_steps
        self.has_action_mask: bool = spec.has_action_mask
        self.device: torch.device = torch.device(spec.device)
        self.steps = 0
        self.gradient_steps = 0
        self.generator: torch.Generator = torch.Generator(self.device).manual_seed(spec.seed)
        self.stream: SingleStream = stream_of_shard(self.generator, spec.shard)
        self.num_envs_total: int = spec.num_envs_total
        width, shape = spec.obs_width, (spec.num_envs, spec.num_agents)
        self.spec: dict[str, Any] = {
            **config.spec(width, spec.layout),
            **mask_spec(spec.has_action_mask),
            "action": greedy_spec(spec.action_space, config.dueling),
        }
        (choices,) = self.spec["action"]["sizes"]
        self.head: GreedyHead = GreedyHead(choices, config.dueling)
        self.normalizer: ObservationNormalizer = ObservationNormalizer(width)
        self.actor: Network = Network(self.spec, self.head.num_params, 1.0, torch.Generator().manual_seed(spec.seed))
        self.target: Network = target_copy(self.actor)
        self.net: torch.nn.ModuleDict = nn.ModuleDict(
            {"normalizer": self.normalizer, "actor": self.actor, "target": self.target}
        )
        self.net.to(self.device)
        adam = make_adam(self.actor.parameters(), config.learning_rate, spec.captured, eps=1e-5)
        self.optimizers: dict[str, torch.optim.Optimizer] = {"adam": adam}
        # on the device, so that captured rollouts and gradient steps see their changes
        self.epsilon: Tensor = torch.full((), config.epsilon, device=self.device)
        self.beta: Tensor = torch.full((), config.priority_beta, device=self.device)
        self.updates: CapturedUpdates = CapturedUpdates(
            spec.captured, self, lambda: (*self.replay.buffers.values(),), self._changed_priorities
        )
        capacity = final_obs_capacity(
            config.rollout_length, spec.time_limit, shape[0] * shape[1], config.truncation_capacity
        )
        self.rollout: RolloutBuffer = RolloutBuffer(
            config.rollout_length, shape, width, (), torch.int64, capacity, self.device
        )
        fields, least = self._fields(shape[1], width, choices), max(config.rollout_length, config.n_step)
        self.replay: ReplayBuffer = ReplayBuffer(config.replay_size, shape[0], fields, self.device, least, spec.shard)
        self.pending: dict[str, Tensor] = {}  # per agent, the decision whose outcome is not known yet
        if spec.turn_based:
            like = {"obs": self.rollout.obs, "action": self.rollout.action, "reward": self.rollout.reward}
            self.pending = {name: torch.zeros_like(tensor[0]) for name, tensor in like.items()}
            self.pending["open"] = torch.zeros(shape, dtype=torch.bool, device=self.device)

    def _fields(self, agents: int, width: int, choices: int) -> Fields:
        flags = dict.fromkeys(("terminated", "truncated", "valid"), ((agents,), torch.bool))
        mask = {"next_mask": ((agents, choices), torch.bool)} if self.has_action_mask else {}
        priority = {PRIORITY: ((), torch.float32)} if self.config.prioritized else {}
        return {
            "obs": ((agents, width), torch.float32),
            "action": ((agents,), torch.int64),
            "reward": ((agents,), torch.float32),
            "next_obs": ((agents, width), torch.float32),
            **flags,
            **mask,
            **priority,
        }

    @torch.no_grad()
    def act(
        self,
        obs: Tensor,
        mask: Tensor | None = None,
        to_move: Tensor | None = None,
        state: Tensor | None = None,
    ) -> Tensor:
        """Return epsilon-greedy actions (E, n); arguments as in `Learner.act`."""
        obs, mask = self.rollout.begin_step(obs, mask, to_move)
        values = self.head.values(self.actor(self.normalizer(obs)))
        action = explore(values, mask, self.epsilon, self.stream)
        self.rollout.store_action(action)
        return action

    def observe(self, transition: Transition) -> None:
        """Store the results of the last actions."""
        self.rollout.end_step(transition)

    def update(self) -> dict[str, Tensor]:
        """Move the rollout to the replay and learn from it once it holds enough steps; return metrics."""
        c, r = self.config, self.rollout
        if not self.updates.enabled:  # otherwise the trainer does, with the metrics
            r.check()
        decided = r.valid if r.to_move is None else r.valid & r.to_move[:-1]
        if c.normalize_obs:
            self.normalizer.update(r.obs, decided, self.reducer.sum)
        self._store(self._complete() if self.pending else self._each_step())
        self.steps += r.length * self.num_envs_total
        r.clear()
        metrics = {"epsilon": self.epsilon.clone()}
        progress = self.steps / self.total_steps
        set_learning_rate(self.optimizers["adam"], linear_schedule(c.learning_rate, c.learning_rate_final, progress))
        if self.steps >= c.learning_starts and self.replay.filled >= c.n_step:
            self.beta.fill_(linear_schedule(c.priority_beta, 1.0, progress))
            metrics |= mean_metrics([self._gradient_step() for _ in range(c.updates)])
        self.epsilon.fill_(c.epsilon_at(progress))
        return metrics

    def _each_step(self) -> dict[str, Tensor]:
        """Return the rollout's transitions (T, E, n, ...), for agents that act at every step."""
        r = self.rollout
        steps = {"obs": r.obs, "action": r.action, "reward": r.reward, "next_obs": r.next_obs()}
        steps |= {"terminated": r.terminated, "truncated": r.truncated, "valid": r.valid}
        if self.has_action_mask:
            steps["valid"] = r.valid & (r.terminated | ~r.truncated)
        return steps

    def _complete(self) -> dict[str, Tensor]:
        """Return the rollout's completed decisions (T, E, n, ...), at the steps that complete them."""
        r, p = self.rollout, self.pending
        assert r.to_move is not None
        steps = {name: torch.zeros_like(getattr(r, name)) for name in ("obs", "action", "reward", "valid", "truncated")}
        for t in range(r.length):
            decided, done = r.valid[t] & r.to_move[t], r.terminated[t] | r.truncated[t]
            p["obs"] = torch.where(decided.unsqueeze(-1), r.obs[t], p["obs"])
            p["action"] = torch.where(decided, r.action[t], p["action"])
            is_open = p["open"] | decided
            p["reward"] = p["reward"].masked_fill(decided, 0.0) + r.reward[t].masked_fill(~is_open, 0.0)
            steps["valid"][t] = is_open & (r.terminated[t] | (r.to_move[t + 1] & ~r.truncated[t]))
            for name in ("obs", "action", "reward"):
                steps[name][t] = p[name]
            p["open"] = is_open & ~steps["valid"][t] & ~done
        return {**steps, "next_obs": r.all_obs[1:], "terminated": r.terminated}

    def _store(self, steps: dict[str, Tensor]) -> None:
        """Append transitions to the replay, with zeros in invalid entries."""
        valid, replay = steps["valid"], self.replay
        follows = (valid & ~steps["terminated"]).unsqueeze(-1)
        steps["obs"] = steps["obs"].masked_fill(~valid.unsqueeze(-1), 0.0)
        steps["next_obs"] = steps["next_obs"].masked_fill(~follows, 0.0)
        steps["reward"] = steps["reward"].masked_fill(~valid, 0.0) * self.config.reward_scale
        if self.has_action_mask:
            assert self.rollout.mask is not None
            steps["next_mask"] = self.rollout.mask[1:]
        if self.config.prioritized:  # new steps get the largest priority
            top = replay.buffers[PRIORITY].max()
            steps[PRIORITY] = torch.where(top > 0, top, 1.0) * valid.any(-1)
        replay.add(steps)

    def _changed_priorities(self) -> Sequence[Tensor]:
        """Return the priorities, which gradient steps change."""
        return (self.replay.buffers[PRIORITY],) if self.config.prioritized else ()

    def _gradient_step(self) -> dict[str, Tensor]:
        """Take one gradient step, and move the target network if it is due; both are captured on a GPU."""
        self.gradient_steps += 1
        moves_target = self.gradient_steps % self.config.target_every == 0
        return self.updates.captured(f"target {moves_target}", partial(self._minibatch_step, moves_target))()

    def _minibatch_step(self, move_target: bool) -> dict[str, Tensor]:
        """Take one Adam step on the Huber loss of sampled steps (B, n)."""
        c, replay = self.config, self.replay
        if c.prioritized:
            step, world, weight = replay.draw_prioritized(c.batch_size, self.generator, self.beta, c.n_step)
        else:
            step, world = replay.draw(c.batch_size, self.generator, c.n_step)
            weight = torch.ones(c.batch_size, device=self.device)
        time, env, indices = replay.local_places(step, world)
        weight = weight if indices is None else weight[indices]
        target, is_known = self._targets(time, env)
        count = self.reducer.divisor(is_known)
        values = self.head.values(self.actor(self.normalizer(replay.buffers["obs"][time, env])))
        value = values.gather(-1, replay.buffers["action"][time, env].unsqueeze(-1)).squeeze(-1)
        error = nn.functional.smooth_l1_loss(value, target, reduction="none")
        loss = masked_mean(error * weight.unsqueeze(1), is_known, count)
        grad_norm = self.reducer.step(self.optimizers["adam"], loss, c.max_grad_norm)
        if move_target:
            polyak_update(self.target, self.actor, c.tau)
        with torch.no_grad():
            if c.prioritized:
                surprise = (value - target).abs().masked_fill(~is_known, 0.0).sum(1) / is_known.sum(1).clamp(min=1)
                priority = (surprise + 1e-6) ** c.priority_alpha * is_known.any(1)
                replay.update_priorities(step, world, indices, priority)
            return {"q_loss": loss.detach(), "q_value": masked_mean(value, is_known, count), "grad_norm": grad_norm}

    @torch.no_grad()
    def _targets(self, time: Tensor, env: Tensor) -> tuple[Tensor, Tensor]:
        """Return the targets of the action values at places, and whether they are known, both (B, n)."""
        c, buffers = self.config, self.replay.buffers
        w = self.replay.windows(time, env, c.n_step, ("reward", "terminated", "truncated", "valid"))
        returns, last, discount, is_known = n_step(w["reward"], w["terminated"], w["truncated"], w["valid"], c.gamma)
        agents = torch.arange(returns.shape[1], device=self.device)
        index = ((time.unsqueeze(1) + last) % self.replay.length, env.unsqueeze(1), agents)
        next_obs = self.normalizer(buffers["next_obs"][index])
        values = self.head.values(self.target(next_obs))
        prefer = self.head.values(self.actor(next_obs)) if c.double else values
        mask = buffers["next_mask"][index] if self.has_action_mask else None
        return returns + discount * best_value(values, prefer, mask), is_known

    def policy(self) -> Policy:
        """Return a frozen copy of the network with its normalizer; it takes the best action."""
        return freeze_policy(self)

    def state_dict(self) -> State:
        """Return networks, Adam, counters, generator, pending decisions and the replay, between rollouts."""
        state = save_state(
            self.net, self.optimizers, self.generator, steps=self.steps, gradient_steps=self.gradient_steps
        )
        pending = {f"pending.{name}": tensor for name, tensor in self.pending.items()}
        return {**state, **pending, **self.replay.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Restore the result of `state_dict`; raise CheckpointError at the first mismatch."""
        counters = load_state(state, self.net, self.optimizers, self.generator, "steps", "gradient_steps")
        self.steps: int = counters["steps"]
        self.gradient_steps: int = counters["gradient_steps"]
        pending = check_tensors("learner state pending", select_prefix(state, "pending."), self.pending)
        self.pending = {name: tensor.to(self.device, copy=True) for name, tensor in pending.items()}
        self.replay.load_state_dict(state)
        self.epsilon.fill_(self.config.epsilon_at(self.steps / self.total_steps))
        self.rollout.clear()
