"""VDN (Sunehag et al. 2018) and QMIX (Rashid et al. 2018): a team learns one value that its agents' values add up to.

Each agent acts greedily on its own values, yet they are learned from the team's reward alone: VDN's value of the team
is their sum, QMIX's a function of them, and of the global state, that falls with none of them. As in PyMARL, all agents
share one network, which is told who it acts for. A recurrent one begins every window of steps that it learns from with
what its agents remembered when they played it, as in R2D2 (Kapturowski et al. 2019, section 3).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gpu_envs.errors import ConfigError
from trainers.bodies import Network, actor_width, with_ids
from trainers.files import check_tensors
from trainers.heads import GreedyHead, greedy_spec
from trainers.learner import ALONE, Central, Descent, State, part_of, restore, saved
from trainers.nets import ObservationNormalizer, follow, masked_mean, mlp
from trainers.policy import Policy, snapshot
from trainers.problem import Problem
from trainers.qlearning import QConfig, best_value, explore, frozen, linear
from trainers.replay import Replay
from trainers.rollout import Rollout, Transition, final_rows
from trainers.settings import check_settings, setting
from trainers.streams import of_shard


@dataclass(frozen=True)
class QMIXConfig(QConfig):
    """Settings of VDN and QMIX."""

    mixer: str = setting("qmix", ("vdn", "qmix"))
    """How values of agents become that of the team: "vdn" adds them, "qmix" learns how."""
    mixer_width: int = setting(32, ">= 1", needs={"mixer": "qmix"})
    """Width of QMIX's hidden layers."""
    window: int = setting(16, ">= 1", needs={"body": "gru"})
    """For a GRU: steps in a row that it learns on at a time."""
    burn_in: int = setting(4, ">= 0", needs={"body": "gru"})
    """For a GRU: steps before these that only bring its memory up to date: it begins with what was remembered when they
    were played, with the weights of then. On windows shorter than what has to be remembered a few such steps are what
    makes it learn."""

    def __post_init__(self) -> None:
        """Raises ConfigError on the first bad value."""
        check_settings(self, "learner.")

    @property
    def central(self) -> Central:
        """As `Learner.central`: VDN's sum needs no state."""
        return "state" if self.mixer == "qmix" else None


class Sum(nn.Module):
    """VDN's mixer."""

    def forward(self, values: Tensor, state: Tensor | None) -> Tensor:
        """(..., n) -> (...)."""
        return values.sum(-1)


class Mixer(nn.Module):
    """QMIX's mixer: a network of two layers whose weights, none negative, are given by linear maps of the state.

    Source: Rashid et al. 2018, "QMIX: Monotonic Value Function Factorisation", section 4 and figure 2.
    """

    def __init__(self, agents: int, state_width: int, width: int, generator: torch.Generator) -> None:
        """Args are n, S, the width of the hidden layer and a CPU generator that draws the weights."""
        super().__init__()
        self.agents = agents
        self.first = mlp([state_width, agents * width], "relu", 1.0, generator)
        self.first_bias = mlp([state_width, width], "relu", 1.0, generator)
        self.second = mlp([state_width, width], "relu", 1.0, generator)
        self.second_bias = mlp([state_width, width, 1], "relu", 1.0, generator)

    def forward(self, values: Tensor, state: Tensor) -> Tensor:
        """Values (..., n) and states (..., S) -> the team's values (...)."""
        weights = self.first(state).abs().unflatten(-1, (self.agents, -1))
        hidden = nn.functional.elu((values.unsqueeze(-2) @ weights).squeeze(-2) + self.first_bias(state))
        return (hidden * self.second(state).abs()).sum(-1) + self.second_bias(state).squeeze(-1)


class QMIX:
    """The learner of a team: the n agents of its policy.

    The team's reward is the mean of its agents' rewards, which is the reward where all get the same. An agent that is
    dead gets none and adds 0 to what is mixed. The team's episode is terminated when that of its last agent is. Under
    action masks, steps at which agents are cut are left out: what was legal then is not known.
    """

    descent: Descent = ALONE

    def __init__(self, config: QMIXConfig, problem: Problem) -> None:
        """Builds networks and buffers; ConfigError where agents take turns or the replay does not fit."""
        if problem.turns:
            raise ConfigError(
                "vdn and qmix need agents that all move at every step, here they take turns; see iql, ppo"
            )
        self.config, self.total_steps, self.masked = config, problem.total_steps, problem.masked
        self.central: Central = config.central
        self.device, self.steps, self.gradient_steps = torch.device(problem.device), 0, 0
        self.generator = torch.Generator(self.device).manual_seed(problem.seed)
        self.stream, self.num_envs_total = of_shard(self.generator, problem.shard), problem.num_envs_total
        weights = torch.Generator().manual_seed(problem.seed)
        envs, agents, width = problem.num_envs, problem.num_agents, problem.obs_width
        self.ids = agents if agents > 1 else 0
        self.spec = {**config.spec(width), "action": greedy_spec(problem.action_space), "ids": self.ids}
        (choices,) = self.spec["action"]["sizes"]
        self.head = GreedyHead(choices, dueling=False)
        self.normalizer = ObservationNormalizer(width)
        self.state_width = problem.state_width if config.mixer == "qmix" else 0
        if config.mixer == "qmix" and not self.state_width:
            raise ConfigError("learner.mixer = 'qmix': expected a global state, got none; vdn needs none")
        self.state_normalizer = ObservationNormalizer(self.state_width)
        self.actor = Network(actor_width(self.spec), choices, 1.0, weights)
        self.mixer = Mixer(agents, self.state_width, config.mixer_width, weights) if self.state_width else Sum()
        learned = nn.ModuleDict({"actor": self.actor, "mixer": self.mixer})
        self.target_actor, self.target_mixer = frozen(self.actor), frozen(self.mixer)
        targets = {"target_actor": self.target_actor, "target_mixer": self.target_mixer}
        normalizers = {"normalizer": self.normalizer}
        if self.state_width:
            normalizers["state_normalizer"] = self.state_normalizer
        self.net = nn.ModuleDict({"learned": learned, **targets, **normalizers})
        self.net.to(self.device)
        adam = torch.optim.Adam(learned.parameters(), lr=config.learning_rate, eps=1e-5, fused=True)
        self.optimizers: dict[str, torch.optim.Optimizer] = {"adam": adam}
        self.epsilon = torch.full((), config.epsilon, device=self.device)
        self.memory = torch.zeros((envs, agents, self.actor.memory_width), device=self.device)
        self.burn_in = config.burn_in if self.actor.memory_width else 0
        self.window = self.burn_in + config.window if self.actor.memory_width else 1
        capacity = final_rows(config.rollout_length, problem.time_limit, envs * agents, config.truncation_capacity)
        self.rollout = Rollout(config.rollout_length, (envs, agents), width, (), torch.int64, capacity, self.device)
        each, flag = (agents, width), torch.bool
        fields = {
            "obs": (each, torch.float32),
            "next_obs": (each, torch.float32),
            "action": ((agents,), torch.int64),
            "valid": ((agents,), flag),
            "follows": ((agents,), flag),
            "reward": ((), torch.float32),
            "known": ((), flag),
            "begins": ((), flag),
        }
        if self.state_width:
            fields |= dict.fromkeys(("state", "next_state"), ((self.state_width,), torch.float32))
        if self.masked:
            fields["next_mask"] = ((agents, choices), flag)
        if self.actor.memory_width:
            fields["memory"] = ((agents, self.actor.memory_width), torch.float32)
        self.remembered = torch.zeros((config.rollout_length, *self.memory.shape), device=self.device)
        least = max(config.rollout_length, self.window)
        self.replay = Replay(config.replay_size, envs, fields, self.device, least, problem.shard)

    @torch.no_grad()
    def act(
        self,
        obs: Tensor,
        mask: Tensor | None = None,
        to_move: Tensor | None = None,
        state: Tensor | None = None,
    ) -> Tensor:
        """Epsilon-greedy actions (E, n); arguments as `Learner.act`."""
        t = self.rollout.t
        begins = self.rollout.begins[t]
        obs, mask = self.rollout.begin(obs, mask, None, state if self.state_width else None)
        self.memory.masked_fill_(begins[:, None, None], 0.0)
        self.remembered[t].copy_(self.memory)
        values, memory = self.actor.step(self._inputs(obs), self.memory)
        assert memory is not None
        self.memory.copy_(memory)
        action = explore(values, mask, self.epsilon, self.stream)
        self.rollout.decide(action)
        return action

    def observe(self, transition: Transition) -> None:
        """Stores what came of the last actions."""
        self.rollout.end(transition)

    def _inputs(self, obs: Tensor) -> Tensor:
        """What the network gets of observations (..., n, D)."""
        return with_ids(self.normalizer(obs), self.ids)

    def update(self) -> dict[str, Tensor]:
        """Moves the rollout into the replay and learns from that, once it holds enough; returns metrics."""
        c, r = self.config, self.rollout
        r.check()
        if c.normalize_obs:
            self.normalizer.update(r.obs, r.valid, self.descent.sum)
            if r.state is not None:
                self.state_normalizer.update(r.state[:-1], r.valid.any(-1), self.descent.sum)
        self.replay.add(self._team_steps())
        self.steps += r.length * self.num_envs_total
        r.clear()
        metrics = {"epsilon": self.epsilon.clone()}
        progress = self.steps / self.total_steps
        self.optimizers["adam"].param_groups[0]["lr"] = linear(c.learning_rate, c.learning_rate_end, progress)
        if self.steps >= c.learning_starts and self.replay.filled >= self.window:
            steps = [self._gradient_step() for _ in range(c.updates)]
            metrics |= {name: torch.stack([step[name] for step in steps]).mean() for name in steps[0]}
        self.epsilon.fill_(c.epsilon_at(progress))
        return metrics

    def _team_steps(self) -> dict[str, Tensor]:
        """The rollout's steps as the team's, (T, E, ...), with zeros in place of what no loss may see."""
        r = self.rollout
        follows = r.valid & ~r.terminated  # an agent that is cut has a value after the step, one that is dead has none
        known = r.valid.any(-1)
        steps = {
            "obs": r.obs.masked_fill(~r.valid.unsqueeze(-1), 0.0),
            "next_obs": r.next_obs().masked_fill(~follows.unsqueeze(-1), 0.0),
            "action": r.action,
            "valid": r.valid,
            "follows": follows,
            "reward": r.reward.masked_fill(~r.valid, 0.0).mean(-1) * self.config.reward_scale,
            "known": known,
            "begins": r.begins[:-1],
        }
        if self.state_width:
            assert r.state is not None
            steps["state"] = r.state[:-1].masked_fill(~known.unsqueeze(-1), 0.0)
            steps["next_state"] = r.next_state().masked_fill(~follows.any(-1, keepdim=True), 0.0)
        if self.masked:
            assert r.mask is not None
            steps["next_mask"] = r.mask[1:]
            steps["known"] = known & ~(r.truncated & follows).any(-1)
        if self.actor.memory_width:
            steps["memory"] = self.remembered.masked_fill(~r.valid.unsqueeze(-1), 0.0)
        return steps

    def _gradient_step(self) -> dict[str, Tensor]:
        """One step of Adam on the squared error of the team's values, over drawn windows (L, B)."""
        c = self.config
        time, env, _ = self.replay.here(*self.replay.draw(c.batch_size, self.generator, self.window))
        batch = self.replay.windows(time, env, self.window, [name for name in self.replay.buffers if name != "memory"])
        inputs, next_inputs = self._inputs(batch["obs"]), self._inputs(batch["next_obs"])
        past = (self.replay.buffers["memory"][time, env], inputs, batch["begins"]) if self.actor.memory_width else None
        batch = {name: values[self.burn_in :] for name, values in batch.items()}
        memory = past and self._remember(self.actor, *past)
        values = self._values(self.actor, inputs[self.burn_in :], memory)
        value = values.gather(-1, batch["action"].unsqueeze(-1)).squeeze(-1).masked_fill(~batch["valid"], 0.0)
        team = self.mixer(value, self._state(batch, "state"))
        with torch.no_grad():
            next_inputs = next_inputs[self.burn_in :]
            next_values = self.target_actor.step(next_inputs, past and self._remember(self.target_actor, *past))[0]
            prefer = self.actor.step(next_inputs, memory)[0] if c.double else next_values
            best = best_value(next_values, prefer, batch.get("next_mask")).masked_fill(~batch["follows"], 0.0)
            following = self.target_mixer(best, self._state(batch, "next_state"))
            target = batch["reward"] + c.gamma * following.masked_fill(~batch["follows"].any(-1), 0.0)
        known = batch["known"]
        count = self.descent.count(known)
        loss = masked_mean((team - target).square(), known, count)
        grad_norm = self.descent(self.optimizers["adam"], loss, c.max_grad_norm)
        self.gradient_steps += 1
        if self.gradient_steps % c.target_every == 0:
            follow(self.target_actor, self.actor, c.tau)
            follow(self.target_mixer, self.mixer, c.tau)
        return {"q_loss": loss.detach(), "q_value": masked_mean(team.detach(), known, count), "grad_norm": grad_norm}

    def _state(self, batch: dict[str, Tensor], name: str) -> Tensor | None:
        return self.state_normalizer(batch[name]) if self.state_width else None

    def _remember(self, actor: Network, before: Tensor, inputs: Tensor, begins: Tensor) -> Tensor:
        """What a GRU remembers after each step of windows but the burn-in, (L', B, n, H).

        Args:
            actor: The GRU.
            before: (B, n, H), what was remembered before the first step when it was played.
            inputs: (L, B, n, ...).
            begins: (L, B), an episode begins with this step: before it there is nothing to remember.
        """
        length, count, agents, _ = inputs.shape
        rows, begins = inputs.flatten(1, 2), begins.repeat_interleave(agents, dim=1)
        memory, burn_in = before.flatten(0, 1), self.burn_in
        if burn_in:
            with torch.no_grad():
                memory = actor.remember(rows[:burn_in], memory, begins[:burn_in])[-1]
        remembered = actor.remember(rows[burn_in:], memory, begins[burn_in:])
        return remembered.view(length - burn_in, count, agents, before.shape[-1])

    @staticmethod
    def _values(actor: Network, inputs: Tensor, memory: Tensor | None) -> Tensor:
        """Values (L, B, n, choices) of inputs, which a GRU remembers already."""
        return actor(inputs) if memory is None else actor.out(memory)

    def policy(self) -> Policy:
        """A frozen copy of the agents' network with its normaliser; it takes the best actions."""
        return snapshot(self)

    def _carried(self) -> dict[str, Tensor]:
        """What goes over from one rollout to the next."""
        return {"memory": self.memory, "begins": self.rollout.begins[0]}

    def state_dict(self) -> State:
        """Networks, Adam, counters, generator, memories and the whole replay; call it between rollouts."""
        state = saved(self.net, self.optimizers, self.generator, steps=self.steps, gradient_steps=self.gradient_steps)
        return {
            **state,
            **{f"carried.{name}": each for name, each in self._carried().items()},
            **self.replay.state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        """Continues from `state_dict`; raises CheckpointError naming the first tensor that does not fit."""
        counters = restore(state, self.net, self.optimizers, self.generator, "steps", "gradient_steps")
        self.steps, self.gradient_steps = counters["steps"], counters["gradient_steps"]
        self.rollout.clear()
        own = self._carried()
        for name, tensor in check_tensors("learner state carried", part_of(state, "carried."), own).items():
            own[name].copy_(tensor)
        self.replay.load_state_dict(state)
        self.epsilon.fill_(self.config.epsilon_at(self.steps / self.total_steps))
