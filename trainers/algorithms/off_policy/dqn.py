"""Deep Q-learning (DQN, Mnih et al. 2015) for agents that share one policy; independent Q-learning for several agents.

Extensions, each with a setting: double Q-learning (van Hasselt et al. 2016), dueling networks (Wang et al. 2016),
n-step returns and prioritized replay (Schaul et al. 2016); see Hessel et al. 2018, "Rainbow".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import check_settings, setting
from trainers.algorithms.off_policy.hidden_states import HiddenStates
from trainers.algorithms.off_policy.kernel_acting import KernelActing
from trainers.algorithms.off_policy.q_learning import QConfig, QLearner, best_value, explore
from trainers.base.gradients import linear_schedule
from trainers.base.learner_spec import LearnerSpec
from trainers.buffers.replay_buffer import PRIORITY, Fields, ReplayBuffer
from trainers.buffers.returns import n_step, one_decision
from trainers.buffers.rollout_buffer import RolloutBuffer
from trainers.models.action_heads import CategoricalHead, GreedyHead, greedy_spec
from trainers.models.networks import Network, polyak_update, target_copy
from trainers.models.normalization import ObservationNormalizer, masked_mean
from trainers.models.policy import mask_spec


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


class DQN(KernelActing, QLearner):
    """Learner of DQN. `update` moves the rollout's steps to the replay and takes gradient steps.

    In turn-based games, the reward of a decision is the sum of its agent's rewards until its next decision or the end
    of its episode. The replay stores it at the step that completes it; with a hidden state it stores all steps.
    Decisions whose episode is cut have no known outcome and are left out. With action masks the same holds for steps
    that were cut, as the legal actions after them are unknown.
    """

    kernel_methods: tuple[str, ...] = ("act", "observe")
    exploration: tuple[str, ...] = ("epsilon",)
    carries = "pending"
    config: DQNConfig
    """Settings of the learner."""

    def __init__(self, config: DQNConfig, spec: LearnerSpec) -> None:
        """Build networks and buffers.

        Raises:
            ConfigError: DQN does not support the spec or the combination of settings, or the replay does not fit.
        """
        if spec.turn_based and config.n_step > 1:
            raise ConfigError(f"learner.n_step: expected 1 for turn-based games, got {config.n_step}")
        super().__init__(config, spec)
        width, shape = spec.obs_width, (spec.num_envs, spec.num_agents)
        self.spec: dict[str, Any] = {
            **config.spec(width, spec.layout),
            **mask_spec(spec.has_action_mask),
            "action": greedy_spec(spec.action_space, config.dueling),
        }
        (choices,) = self.spec["action"]["sizes"]
        self.q_head: GreedyHead = GreedyHead(choices, config.dueling)
        self.head: CategoricalHead = self.q_head
        self.normalizer: ObservationNormalizer = ObservationNormalizer(width, self.spec)
        self.actor: Network = Network(self.spec, self.head.num_params, 1.0, torch.Generator().manual_seed(spec.seed))
        if self.actor.hidden_width and config.prioritized:
            raise ConfigError("learner.prioritized: expected False for a network with a hidden state, got True")
        self.target: Network = target_copy(self.actor)
        self.net: nn.ModuleDict = nn.ModuleDict(
            {"normalizer": self.normalizer, "actor": self.actor, "target": self.target}
        )
        self.net.to(self.device)
        self._optimize(self.actor.parameters())
        # on the device, so that captured gradient steps see its changes
        self.beta: Tensor = torch.full((), config.priority_beta, device=self.device)
        self.rollout: RolloutBuffer = RolloutBuffer.for_learner(
            spec, self.head, config.rollout_length, config.truncation_capacity
        )
        self.hidden_states: HiddenStates = HiddenStates(config, self.actor, self.rollout, spec.turn_based)
        self.window: int = self.hidden_states.window + config.n_step - 1
        """Steps that a gradient step needs after each drawn place."""
        fields, least = self._fields(shape[1], width, choices), max(config.rollout_length, self.window)
        self.replay: ReplayBuffer = ReplayBuffer(config.replay_size, shape[0], fields, self.device, least, spec.shard)
        self.pending: dict[str, Tensor] = {}  # per agent, the decision whose outcome is not known yet
        if spec.turn_based and not self.actor.hidden_width:
            like = {"obs": self.rollout.obs, "action": self.rollout.action, "reward": self.rollout.reward}
            self.pending = {name: torch.zeros_like(tensor[0]) for name, tensor in like.items()}
            self.pending["open"] = torch.zeros(shape, dtype=torch.bool, device=self.device)

    def _fields(self, agents: int, width: int, choices: int) -> Fields:
        flags = dict.fromkeys(("terminated", "truncated", "valid"), ((agents,), torch.bool))
        mask = {"next_mask": ((agents, choices), torch.bool)} if self.has_action_mask else {}
        priority = {PRIORITY: ((), torch.float32)} if self.config.prioritized else {}
        states = self.hidden_states.fields()
        turns = dict.fromkeys(("decides", "decides_next"), ((agents,), torch.bool)) if "advances" in states else {}
        return {
            "obs": ((agents, width), torch.float32),
            "action": ((agents,), torch.int64),
            "reward": ((agents,), torch.float32),
            "next_obs": ((agents, width), torch.float32),
            **flags,
            **mask,
            **priority,
            **states,
            **turns,
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
        values = self.q_head.values(self.hidden_states.step(self.q_network, self.normalizer(obs)))
        action = explore(values, mask, self.epsilon, self.stream)
        self.rollout.store_action(action)
        return action

    @property
    def q_network(self) -> Network:
        """Network of action values: the actor."""
        return self.actor

    @property
    def decided(self) -> Tensor:
        """(T, E, n) bool, the decisions of the rollout: agents that were alive and to move."""
        r = self.rollout
        return r.valid if r.to_move is None else r.valid & r.to_move[:-1]

    def _normalize(self) -> None:
        self.normalizer.update(self.rollout.obs, self.decided, self.reducer.sum)

    def _begin_learning(self, progress: float) -> dict[str, Tensor]:
        self.beta.fill_(linear_schedule(self.config.priority_beta, 1.0, progress))
        return super()._begin_learning(progress)

    def _can_learn(self) -> bool:
        return self.replay.filled >= self.window

    def _carried(self) -> dict[str, Tensor]:
        return self.pending | super()._carried()

    def _each_step(self) -> dict[str, Tensor]:
        """Return the rollout's transitions (T, E, n, ...); with a hidden state also those of agents that wait."""
        r = self.rollout
        steps = {"obs": r.obs, "action": r.action, "reward": r.reward, "next_obs": r.next_obs()}
        steps |= {"terminated": r.terminated, "truncated": r.truncated, "valid": r.valid}
        if self.has_action_mask:
            steps["valid"] = r.valid & (r.terminated | ~r.truncated)
        if r.advances is not None:
            assert r.to_move is not None
            steps |= {"decides": r.valid & r.to_move[:-1], "decides_next": r.to_move[1:] & ~r.truncated}
        return steps | self.hidden_states.steps()

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

    def _store_rollout(self) -> None:
        """Append the rollout's transitions to the replay, with zeros in invalid entries."""
        steps, replay = self._complete() if self.pending else self._each_step(), self.replay
        valid = steps["valid"]
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

    def _changed_replay(self) -> Sequence[Tensor]:
        return (self.replay.buffers[PRIORITY],) if self.config.prioritized else ()

    def _minibatch_step(self, move_target: bool) -> dict[str, Tensor]:
        """Take one Adam step on the loss of the values of sampled steps (B, n), or windows of steps (L, B, n)."""
        c, replay = self.config, self.replay
        if c.prioritized:
            step, world, weight = replay.draw_prioritized(c.batch_size, self.generator, self.beta, c.n_step)
        else:
            step, world = replay.draw(c.batch_size, self.generator, self.window)
            weight = torch.ones(c.batch_size, device=self.device)
        time, env, indices = replay.local_places(step, world)
        weight = weight if indices is None else weight[indices]
        if self.hidden_states.width:
            value, target, is_known = self._windows(time, env)
        else:
            target, is_known = self._targets(time, env)
            values = self.q_head.values(self.q_network(self.normalizer(replay.buffers["obs"][time, env])))
            value = values.gather(-1, replay.buffers["action"][time, env].unsqueeze(-1)).squeeze(-1)
        count = self.reducer.divisor(is_known)
        error = self._value_loss(value, target)
        loss = masked_mean(error * weight.unsqueeze(1), is_known, count)
        grad_norm = self.reducer.step(self.optimizers["adam"], loss, c.max_grad_norm)
        if move_target:
            polyak_update(self.target, self.q_network, c.tau)
        with torch.no_grad():
            if c.prioritized:
                surprise = (value - target).abs().masked_fill(~is_known, 0.0).sum(1) / is_known.sum(1).clamp(min=1)
                priority = (surprise + 1e-6) ** c.priority_alpha * is_known.any(1)
                replay.update_priorities(step, world, indices, priority)
            return {"q_loss": loss.detach(), "q_value": masked_mean(value, is_known, count), "grad_norm": grad_norm}

    def _value_loss(self, value: Tensor, target: Tensor) -> Tensor:
        """Return the Huber losses of values (B, n)."""
        return nn.functional.smooth_l1_loss(value, target, reduction="none")

    @torch.no_grad()
    def _targets(self, time: Tensor, env: Tensor) -> tuple[Tensor, Tensor]:
        """Return the targets of the action values at places, and whether they are known, both (B, n)."""
        c, buffers = self.config, self.replay.buffers
        w = self.replay.windows(time, env, c.n_step, ("reward", "terminated", "truncated", "valid"))
        returns, last, discount, is_known = n_step(w["reward"], w["terminated"], w["truncated"], w["valid"], c.gamma)
        agents = torch.arange(returns.shape[1], device=self.device)
        index = ((time.unsqueeze(1) + last) % self.replay.length, env.unsqueeze(1), agents)
        next_obs = self.normalizer(buffers["next_obs"][index])
        values = self.q_head.values(self.target(next_obs))
        prefer = self.q_head.values(self.q_network(next_obs)) if c.double else values
        mask = buffers["next_mask"][index] if self.has_action_mask else None
        return returns + discount * best_value(values, prefer, mask), is_known

    def _windows(self, time: Tensor, env: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return values of the actions in windows from places on, targets, and whether these are known (L, B, n)."""
        c, states = self.config, self.hidden_states
        w = states.sample(self.replay, time, env, c.n_step - 1)
        # a resumed run may begin new episodes after a step that ended none
        w["truncated"][:-1] |= w["episode_starts"][1:, :, None] & ~w["terminated"][:-1]
        start, obs, next_obs = w["hidden_state"], self.normalizer(w["obs"]), self.normalizer(w["next_obs"])
        params, hidden_state = states.unroll(self.q_network, obs, w, start)
        values = self.q_head.values(params).gather(-1, w["action"].unsqueeze(-1)).squeeze(-1)
        with torch.no_grad():
            target_state = states.states_after(self.target, obs, w, start)
            next_values = self.q_head.values(self.target.step(next_obs, target_state)[0])
            prefer = self.q_head.values(self.q_network.step(next_obs, hidden_state)[0]) if c.double else next_values
            next_value = best_value(next_values, prefer, w.get("next_mask"))
            if "decides" in w:
                target, is_known = one_decision(
                    w["reward"], next_value, w["terminated"], w["truncated"], w["decides_next"], c.gamma
                )
                return values, target, is_known & w["decides"] & w["valid"]
            reward, terminated, truncated, valid = (
                w[name].unfold(0, c.n_step, 1).movedim(-1, 0) for name in ("reward", "terminated", "truncated", "valid")
            )
            returns, last, discount, is_known = n_step(reward, terminated, truncated, valid, c.gamma)
            bootstrap = next_value.unfold(0, c.n_step, 1).gather(-1, last.unsqueeze(-1)).squeeze(-1)
        return values[: len(returns)], returns + discount * bootstrap, is_known
