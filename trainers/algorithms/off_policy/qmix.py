"""VDN (Sunehag et al. 2018), QMIX (Rashid et al. 2018) and QPLEX (Wang et al. 2021): cooperative value decomposition.

Each agent acts greedily on its own values, which are learned from the team's reward alone. A mixer computes the team's
value from them, see `mixers`. As in PyMARL, all agents share one network, which gets the agent's index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import Bounds, check_settings, setting
from trainers.algorithms.learner import CentralInput
from trainers.algorithms.off_policy.hidden_states import HiddenStates
from trainers.algorithms.off_policy.mixers import Mixer, QMIXMixer, QPLEXMixer, VDNMixer
from trainers.algorithms.off_policy.q_learning import QConfig, QLearner, explore
from trainers.base.learner_spec import LearnerSpec
from trainers.buffers.replay_buffer import ReplayBuffer
from trainers.buffers.rollout_buffer import RolloutBuffer
from trainers.models.action_heads import GreedyHead, greedy_spec, legal
from trainers.models.networks import Network, actor_width, polyak_update, target_copy, with_ids
from trainers.models.normalization import ObservationNormalizer, masked_mean
from trainers.models.policy import mask_spec


@dataclass(frozen=True)
class QMIXConfig(QConfig):
    """Settings of VDN, QMIX and QPLEX."""

    mixer: str = setting("qmix", choices=("vdn", "qmix", "qplex"))
    """Team value: "vdn" sums the agents' values, "qmix" learns a monotonic mixing network, "qplex" mixes values and
    advantages apart, which represents every value whose best joint action is that of the agents."""
    mixer_width: int = setting(32, ge=1, requires={"mixer": Bounds(choices=("qmix", "qplex"))})
    """Width of the mixer's hidden layers."""
    mixer_heads: int = setting(10, ge=1, requires={"mixer": "qplex"})
    """Number of attention heads that weight QPLEX's advantages."""

    def __post_init__(self) -> None:
        """Raise ConfigError for the first invalid setting."""
        check_settings(self, "learner.")

    @property
    def central_input(self) -> CentralInput:
        """Global input, see `Learner.central_input`; VDN needs none."""
        return None if self.mixer == "vdn" else "state"


class QMIX(QLearner):
    """Learner of VDN, QMIX and QPLEX for a team, the n agents of its policy.

    The team's reward is the mean of its agents' rewards, which is each agent's reward if they share one. A dead agent
    gets no reward and adds a value of 0. The team's episode ends when its last agent's does. With action masks, steps
    that cut an agent are left out, as the legal actions after them are unknown.
    """

    config: QMIXConfig
    """Settings of the learner."""

    def __init__(self, config: QMIXConfig, spec: LearnerSpec) -> None:
        """Build networks and buffers; raise ConfigError if agents take turns or the replay does not fit."""
        if spec.turn_based:
            raise ConfigError(
                f"{config.mixer}: expected agents that all act at every step, got a turn-based game; use iql or ppo"
            )
        super().__init__(config, spec)
        self.central_input: CentralInput = config.central_input
        weights = torch.Generator().manual_seed(spec.seed)
        envs, agents, width = spec.num_envs, spec.num_agents, spec.obs_width
        self.ids: int = agents if agents > 1 else 0
        self.spec: dict[str, Any] = {
            **config.spec(width, spec.layout),
            **mask_spec(spec.has_action_mask),
            "action": greedy_spec(spec.action_space),
            "ids": self.ids,
        }
        (choices,) = self.spec["action"]["sizes"]
        self.head: GreedyHead = GreedyHead(choices, dueling=False)
        self.normalizer: ObservationNormalizer = ObservationNormalizer(width, self.spec)
        self.state_width: int = 0 if config.mixer == "vdn" else spec.state_width
        if config.mixer != "vdn" and not self.state_width:
            raise ConfigError(f"learner.mixer={config.mixer!r}: expected an environment with a global state; use vdn")
        self.state_normalizer: ObservationNormalizer = ObservationNormalizer(self.state_width)
        self.actor: Network = Network(actor_width(self.spec), choices, 1.0, weights)
        self.mixer: Mixer = self._make_mixer(agents, choices, weights)
        learned = nn.ModuleDict({"actor": self.actor, "mixer": self.mixer})
        self.target_actor: Network = target_copy(self.actor)
        self.target_mixer: Mixer = target_copy(self.mixer)
        targets = {"target_actor": self.target_actor, "target_mixer": self.target_mixer}
        normalizers = {"normalizer": self.normalizer}
        if self.state_width:
            normalizers["state_normalizer"] = self.state_normalizer
        self.net: nn.ModuleDict = nn.ModuleDict({"learned": learned, **targets, **normalizers})
        self.net.to(self.device)
        self._optimize(learned.parameters())
        self.rollout: RolloutBuffer = RolloutBuffer.for_learner(
            spec, self.head, config.rollout_length, config.truncation_capacity
        )
        self.hidden_states: HiddenStates = HiddenStates(config, self.actor, self.rollout)
        per_agent, flag = (agents, width), torch.bool
        fields = {
            "obs": (per_agent, torch.float32),
            "next_obs": (per_agent, torch.float32),
            "action": ((agents,), torch.int64),
            "valid": ((agents,), flag),
            "follows": ((agents,), flag),
            "reward": ((), torch.float32),
            "known": ((), flag),
            "episode_starts": ((), flag),
            **self.hidden_states.fields(),
        }
        if self.state_width:
            fields |= dict.fromkeys(("state", "next_state"), ((self.state_width,), torch.float32))
        if self.has_action_mask:
            masks = ("mask", "next_mask") if config.mixer == "qplex" else ("next_mask",)
            fields |= dict.fromkeys(masks, ((agents, choices), flag))
        least = max(config.rollout_length, self.hidden_states.window)
        self.replay: ReplayBuffer = ReplayBuffer(config.replay_size, envs, fields, self.device, least, spec.shard)

    def _make_mixer(self, agents: int, choices: int, weights: torch.Generator) -> Mixer:
        c = self.config
        if c.mixer == "vdn":
            return VDNMixer()
        if c.mixer == "qmix":
            return QMIXMixer(agents, self.state_width, c.mixer_width, weights)
        return QPLEXMixer(agents, choices, self.state_width, c.mixer_width, c.mixer_heads, weights)

    @torch.no_grad()
    def act(
        self,
        obs: Tensor,
        mask: Tensor | None = None,
        to_move: Tensor | None = None,
        state: Tensor | None = None,
    ) -> Tensor:
        """Return epsilon-greedy actions (E, n); arguments as in `Learner.act`."""
        obs, mask = self.rollout.begin_step(obs, mask, None, state if self.state_width else None)
        values = self.hidden_states.step(self.actor, self._inputs(obs))
        action = explore(values, mask, self.epsilon, self.stream)
        self.rollout.store_action(action)
        return action

    def _inputs(self, obs: Tensor) -> Tensor:
        """Return the network inputs of observations (..., n, D)."""
        return with_ids(self.normalizer(obs), self.ids)

    def _normalize(self) -> None:
        super()._normalize()
        if (r := self.rollout).state is not None:
            self.state_normalizer.update(r.state[:-1], r.valid.any(-1), self.reducer.sum)

    def _can_learn(self) -> bool:
        return self.replay.filled >= self.hidden_states.window

    def _store_rollout(self) -> None:
        self.replay.add(self._team_steps())

    def _team_steps(self) -> dict[str, Tensor]:
        """Return the rollout as steps of the team, (T, E, ...), with zeros in invalid entries."""
        r = self.rollout
        follows = r.valid & ~r.terminated  # an agent that was cut still has a next value, a dead one has none
        is_known = r.valid.any(-1)
        steps = {
            "obs": r.obs.masked_fill(~r.valid.unsqueeze(-1), 0.0),
            "next_obs": r.next_obs().masked_fill(~follows.unsqueeze(-1), 0.0),
            "action": r.action,
            "valid": r.valid,
            "follows": follows,
            "reward": r.reward.masked_fill(~r.valid, 0.0).mean(-1) * self.config.reward_scale,
            "known": is_known,
            "episode_starts": r.episode_starts[:-1],
            **self.hidden_states.steps(),
        }
        if self.state_width:
            assert r.state is not None
            steps["state"] = r.state[:-1].masked_fill(~is_known.unsqueeze(-1), 0.0)
            steps["next_state"] = r.next_state().masked_fill(~follows.any(-1, keepdim=True), 0.0)
        if self.has_action_mask:
            assert r.mask is not None
            steps |= {"mask": r.mask[:-1]} if self.config.mixer == "qplex" else {}
            steps["next_mask"] = r.mask[1:]
            steps["known"] = is_known & ~(r.truncated & follows).any(-1)
        return steps

    def _minibatch_step(self, move_target: bool) -> dict[str, Tensor]:
        """Take one Adam step on the squared error of the team values, over sampled windows (L, B)."""
        c, states = self.config, self.hidden_states
        time, env, _ = self.replay.local_places(*self.replay.draw(c.batch_size, self.generator, states.window))
        batch = states.sample(self.replay, time, env)
        inputs, next_inputs = self._inputs(batch["obs"]), self._inputs(batch["next_obs"])
        start = batch.pop("hidden_state", None)
        values, hidden_state = states.unroll(self.actor, inputs, batch, start)
        target_state = states.states_after(self.target_actor, inputs, batch, start)
        if hidden_state is not None and target_state is not None:  # the loss leaves the burn-in out
            values, next_inputs, hidden_state, target_state = (
                tensor[states.burn_in :] for tensor in (values, next_inputs, hidden_state, target_state)
            )
            batch = {name: tensor[states.burn_in :] for name, tensor in batch.items()}
        team = self._team_value(self.mixer, values, batch["action"], batch["valid"], batch, "")
        with torch.no_grad():
            next_values = self.target_actor.step(next_inputs, target_state)[0]
            prefer = self.actor.step(next_inputs, hidden_state)[0] if c.double else next_values
            greedy = legal(prefer, batch.get("next_mask")).argmax(-1)
            following = self._team_value(self.target_mixer, next_values, greedy, batch["follows"], batch, "next_")
            target = batch["reward"] + c.gamma * following.masked_fill(~batch["follows"].any(-1), 0.0)
        is_known = batch["known"]
        count = self.reducer.divisor(is_known)
        loss = masked_mean((team - target).square(), is_known, count)
        grad_norm = self.reducer.step(self.optimizers["adam"], loss, c.max_grad_norm)
        if move_target:
            polyak_update(self.target_actor, self.actor, c.tau)
            polyak_update(self.target_mixer, self.mixer, c.tau)
        return {"q_loss": loss.detach(), "q_value": masked_mean(team.detach(), is_known, count), "grad_norm": grad_norm}

    def _team_value(
        self, mixer: Mixer, values: Tensor, action: Tensor, alive: Tensor, batch: dict[str, Tensor], prefix: str
    ) -> Tensor:
        """Return the team's values (L, B) of actions (L, B, n), from values (L, B, n, choices) of the agents.

        Args:
            mixer: The mixer.
            values: Values of all actions.
            action: The actions.
            alive: (L, B, n) bool; other agents have no action, and values of 0.
            batch: Training windows.
            prefix: Start of the names of mask and state in `batch`: "" or "next_".
        """
        value = values.gather(-1, action.unsqueeze(-1)).squeeze(-1).masked_fill(~alive, 0.0)
        state = self.state_normalizer(batch[f"{prefix}state"]) if self.state_width else None
        if self.config.mixer != "qplex":
            return mixer(value, state)
        best = legal(values, batch.get(f"{prefix}mask")).amax(-1).masked_fill(~alive, 0.0)
        code = torch.eye(values.shape[-1], device=self.device)[action].masked_fill(~alive.unsqueeze(-1), 0.0)
        return mixer(value, state, best, code)

    def _carried(self) -> dict[str, Tensor]:
        return self.hidden_states.carried()
