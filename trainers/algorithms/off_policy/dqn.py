"""Deep Q-learning (Mnih et al. 2015) for a group of agents that share one policy; independent Q-learning among many.

With what later work added, each by a setting: double Q-learning (van Hasselt et al. 2016), dueling networks (Wang et
al. 2016), n-step returns and prioritised replay (Schaul et al. 2016); see Hessel et al. 2018, "Rainbow".
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gpu_envs.errors import ConfigError
from trainers.bodies import Network
from trainers.files import check_tensors
from trainers.heads import GreedyHead, greedy_spec
from trainers.learner import ALONE, Central, Descent, State, part_of, restore, saved
from trainers.nets import ObservationNormalizer, follow, masked_mean
from trainers.policy import Policy, snapshot
from trainers.problem import Problem
from trainers.qlearning import QConfig, best_value, explore, frozen, linear
from trainers.replay import PRIORITY, Fields, Replay
from trainers.returns import n_step
from trainers.rollout import Rollout, Transition, final_rows
from trainers.settings import check_settings, setting
from trainers.streams import of_shard


@dataclass(frozen=True)
class DQNConfig(QConfig):
    """Settings of DQN."""

    n_step: int = setting(1, ">= 1")
    """Rewards that are summed before a value follows; 1 where agents take turns."""
    dueling: bool = False
    """The network's last layer gives a value and advantages."""
    prioritized: bool = False
    """Draw steps by how wrong their values were, instead of uniformly."""
    priority_alpha: float = setting(0.6, "in [0, 1]", needs={"prioritized": True})
    """Power of the error that a probability is proportional to; 0 is uniform."""
    priority_beta: float = setting(0.4, "in [0, 1]", needs={"prioritized": True})
    """How far weights make up for these probabilities at the start; wholly (1) after `total_steps`."""

    def __post_init__(self) -> None:
        """Raises ConfigError on the first bad value."""
        check_settings(self, "learner.")
        if self.body == "gru":
            raise ConfigError(
                "learner.body = 'gru': expected mlp or cnn, as dqn and iql remember nothing; see qmix, ppo"
            )


class DQN:
    """The learner. Steps of a rollout go into the replay in `update`, which then makes some gradient steps.

    Where agents take turns, a decision's reward is all that its agent gets until its next decision or the end of its
    episode, and the replay holds it at the step where it is complete. A decision whose episode is cut has no known
    outcome and is left out, as are, under action masks, steps that were cut: what was legal then is not known.
    """

    central: Central = None
    descent: Descent = ALONE

    def __init__(self, config: DQNConfig, problem: Problem) -> None:
        """Builds networks and buffers; ConfigError where the problem is not one for DQN or its replay does not fit."""
        if problem.turns and config.n_step > 1:
            raise ConfigError(f"learner.n_step = {config.n_step}: expected 1, as agents take turns")
        self.config, self.total_steps, self.masked = config, problem.total_steps, problem.masked
        self.device, self.steps, self.gradient_steps = torch.device(problem.device), 0, 0
        self.generator = torch.Generator(self.device).manual_seed(problem.seed)
        self.stream, self.num_envs_total = of_shard(self.generator, problem.shard), problem.num_envs_total
        width, shape = problem.obs_width, (problem.num_envs, problem.num_agents)
        self.spec = {**config.spec(width), "action": greedy_spec(problem.action_space, config.dueling)}
        (choices,) = self.spec["action"]["sizes"]
        self.head = GreedyHead(choices, config.dueling)
        self.normalizer = ObservationNormalizer(width)
        self.actor = Network(self.spec, self.head.num_params, 1.0, torch.Generator().manual_seed(problem.seed))
        self.target = frozen(self.actor)
        self.net = nn.ModuleDict({"normalizer": self.normalizer, "actor": self.actor, "target": self.target})
        self.net.to(self.device)
        adam = torch.optim.Adam(self.actor.parameters(), lr=config.learning_rate, eps=1e-5, fused=True)
        self.optimizers: dict[str, torch.optim.Optimizer] = {"adam": adam}
        self.epsilon = torch.full((), config.epsilon, device=self.device)
        capacity = final_rows(
            config.rollout_length, problem.time_limit, shape[0] * shape[1], config.truncation_capacity
        )
        self.rollout = Rollout(config.rollout_length, shape, width, (), torch.int64, capacity, self.device)
        fields, least = self._fields(shape[1], width, choices), max(config.rollout_length, config.n_step)
        self.replay = Replay(config.replay_size, shape[0], fields, self.device, least, problem.shard)
        self.pending: dict[str, Tensor] = {}  # by agent, the decision whose outcome is not known yet
        if problem.turns:
            like = {"obs": self.rollout.obs, "action": self.rollout.action, "reward": self.rollout.reward}
            self.pending = {name: torch.zeros_like(tensor[0]) for name, tensor in like.items()}
            self.pending["open"] = torch.zeros(shape, dtype=torch.bool, device=self.device)

    def _fields(self, agents: int, width: int, choices: int) -> Fields:
        flags = dict.fromkeys(("terminated", "truncated", "valid"), ((agents,), torch.bool))
        mask = {"next_mask": ((agents, choices), torch.bool)} if self.masked else {}
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
        """Epsilon-greedy actions (E, n); arguments as `Learner.act`."""
        obs, mask = self.rollout.begin(obs, mask, to_move)
        values = self.head.values(self.actor(self.normalizer(obs)))
        action = explore(values, mask, self.epsilon, self.stream)
        self.rollout.decide(action)
        return action

    def observe(self, transition: Transition) -> None:
        """Stores what came of the last actions."""
        self.rollout.end(transition)

    def update(self) -> dict[str, Tensor]:
        """Moves the rollout into the replay and learns from that, once it holds enough; returns metrics."""
        c, r = self.config, self.rollout
        r.check()
        decided = r.valid if r.to_move is None else r.valid & r.to_move[:-1]
        if c.normalize_obs:
            self.normalizer.update(r.obs, decided, self.descent.sum)
        self._store(self._complete() if self.pending else self._each_step())
        self.steps += r.length * self.num_envs_total
        r.clear()
        metrics = {"epsilon": self.epsilon.clone()}
        progress = self.steps / self.total_steps
        self.optimizers["adam"].param_groups[0]["lr"] = linear(c.learning_rate, c.learning_rate_end, progress)
        if self.steps >= c.learning_starts and self.replay.filled >= c.n_step:
            beta = linear(c.priority_beta, 1.0, progress)
            steps = [self._gradient_step(beta) for _ in range(c.updates)]
            metrics |= {name: torch.stack([step[name] for step in steps]).mean() for name in steps[0]}
        self.epsilon.fill_(c.epsilon_at(progress))
        return metrics

    def _each_step(self) -> dict[str, Tensor]:
        """The rollout's transitions, (T, E, n, ...), where all agents move at every step."""
        r = self.rollout
        steps = {"obs": r.obs, "action": r.action, "reward": r.reward, "next_obs": r.next_obs()}
        steps |= {"terminated": r.terminated, "truncated": r.truncated, "valid": r.valid}
        if self.masked:
            steps["valid"] = r.valid & (r.terminated | ~r.truncated)
        return steps

    def _complete(self) -> dict[str, Tensor]:
        """The rollout's decisions whose outcome it shows, (T, E, n, ...), at the steps that complete them."""
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
        """Appends transitions to the replay, zeros in place of what no loss may see."""
        valid, replay = steps["valid"], self.replay
        follows = (valid & ~steps["terminated"]).unsqueeze(-1)
        steps["obs"] = steps["obs"].masked_fill(~valid.unsqueeze(-1), 0.0)
        steps["next_obs"] = steps["next_obs"].masked_fill(~follows, 0.0)
        steps["reward"] = steps["reward"].masked_fill(~valid, 0.0) * self.config.reward_scale
        if self.masked:
            assert self.rollout.mask is not None
            steps["next_mask"] = self.rollout.mask[1:]
        if self.config.prioritized:  # what has not been seen yet is as urgent as anything
            top = replay.buffers[PRIORITY].max()
            steps[PRIORITY] = torch.where(top > 0, top, 1.0) * valid.any(-1)
        replay.add(steps)

    def _gradient_step(self, beta: float) -> dict[str, Tensor]:
        """One step of Adam on the Huber loss of drawn steps, (B, n) with all their agents."""
        c, replay = self.config, self.replay
        if c.prioritized:
            when, where, weight = replay.draw_prioritized(c.batch_size, self.generator, beta, c.n_step)
        else:
            when, where = replay.draw(c.batch_size, self.generator, c.n_step)
            weight = torch.ones(c.batch_size, device=self.device)
        time, env, own = replay.here(when, where)
        weight = weight if own is None else weight[own]
        target, known = self._targets(time, env)
        count = self.descent.count(known)
        values = self.head.values(self.actor(self.normalizer(replay.buffers["obs"][time, env])))
        value = values.gather(-1, replay.buffers["action"][time, env].unsqueeze(-1)).squeeze(-1)
        error = nn.functional.smooth_l1_loss(value, target, reduction="none")
        loss = masked_mean(error * weight.unsqueeze(1), known, count)
        grad_norm = self.descent(self.optimizers["adam"], loss, c.max_grad_norm)
        self.gradient_steps += 1
        if self.gradient_steps % c.target_every == 0:
            follow(self.target, self.actor, c.tau)
        with torch.no_grad():
            if c.prioritized:
                surprise = (value - target).abs().masked_fill(~known, 0.0).sum(1) / known.sum(1).clamp(min=1)
                priority = (surprise + 1e-6) ** c.priority_alpha * known.any(1)
                replay.prioritize(when, where, own, priority)
            return {"q_loss": loss.detach(), "q_value": masked_mean(value, known, count), "grad_norm": grad_norm}

    @torch.no_grad()
    def _targets(self, time: Tensor, env: Tensor) -> tuple[Tensor, Tensor]:
        """What the values of the actions at places should be, and whether it is known, both (B, n)."""
        c, buffers = self.config, self.replay.buffers
        w = self.replay.windows(time, env, c.n_step, ("reward", "terminated", "truncated", "valid"))
        returns, last, discount, known = n_step(w["reward"], w["terminated"], w["truncated"], w["valid"], c.gamma)
        agents = torch.arange(returns.shape[1], device=self.device)
        where = ((time.unsqueeze(1) + last) % self.replay.length, env.unsqueeze(1), agents)
        next_obs = self.normalizer(buffers["next_obs"][where])
        values = self.head.values(self.target(next_obs))
        prefer = self.head.values(self.actor(next_obs)) if c.double else values
        mask = buffers["next_mask"][where] if self.masked else None
        return returns + discount * best_value(values, prefer, mask), known

    def policy(self) -> Policy:
        """A frozen copy of the network with its normaliser; it takes the best action."""
        return snapshot(self)

    def state_dict(self) -> State:
        """Networks, Adam, counters, generator, pending decisions and the whole replay; call it between rollouts."""
        state = saved(self.net, self.optimizers, self.generator, steps=self.steps, gradient_steps=self.gradient_steps)
        return {**state, **{f"pending.{name}": each for name, each in self.pending.items()}, **self.replay.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Continues from `state_dict`; raises CheckpointError naming the first tensor that does not fit."""
        counters = restore(state, self.net, self.optimizers, self.generator, "steps", "gradient_steps")
        self.steps, self.gradient_steps = counters["steps"], counters["gradient_steps"]
        pending = check_tensors("learner state pending", part_of(state, "pending."), self.pending)
        self.pending = {name: tensor.to(self.device, copy=True) for name, tensor in pending.items()}
        self.replay.load_state_dict(state)
        self.epsilon.fill_(self.config.epsilon_at(self.steps / self.total_steps))
        self.rollout.clear()
