"""Critics of all agents: their inputs, the network, and the learner with the replay that all learners share."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from trainers.algorithms.learner import CentralInput
from trainers.algorithms.off_policy.critic_learner import COPIED_FIELDS, CriticConfig, CriticLearner
from trainers.base.learner_spec import LearnerSpec
from trainers.base.random_streams import SingleStream
from trainers.base.state import State
from trainers.buffers.replay_buffer import Fields
from trainers.models.networks import MLP, Network
from trainers.models.normalization import ObservationNormalizer


class JointObservation:
    """Global input of the critic of one policy's n agents in a world with A agents: (B, `width`).

    It holds the observations and action codes of all agents, padded to the widest, once per world. `JointCritic` values
    each of the n agents from it. Agents that have left are zeros, with the actions of their policy on zeros.
    """

    def __init__(self, spec: LearnerSpec) -> None:
        """Look up the rows, observation widths and action widths of all policies."""
        device, players = torch.device(spec.device), spec.agents
        self.policy: str = spec.policy
        self.agents: int = len(players)
        self.state_width: int = spec.state_width
        self.padded: int = spec.state_width // self.agents
        rows: dict[str, list[int]] = {}
        for player in sorted(players, key=lambda x: x.index):
            rows.setdefault(player.policy, []).append(player.row)
        self.rows: dict[str, Tensor] = {name: torch.tensor(indices, device=device) for name, indices in rows.items()}
        self.obs_width: dict[str, int] = {player.policy: player.obs_width for player in players}
        self.action_width: dict[str, int] = {player.policy: sum(player.action_space.shape or ()) for player in players}
        self.choices: dict[str, int] = {player.policy: spaces.flatdim(player.action_space) for player in players}
        self.code_width: int = max(self.choices.values())
        self.width: int = spec.state_width + self.agents * self.code_width
        self.learners: Mapping[str, JointCriticLearner] = {}  # all learners, by policy

    def obs(self, state: Tensor, policy: str) -> Tensor:
        """Return the observations (B, n, D) of a policy's agents from all padded observations (B, A * padded)."""
        return state.unflatten(-1, (self.agents, self.padded))[:, self.rows[policy], : self.obs_width[policy]]

    def mask(self, mask: Tensor | None, policy: str) -> Tensor | None:
        """Return the masks (B, n, choices) of a policy's agents from all padded masks (B, A, code_width)."""
        return None if mask is None else mask[:, self.rows[policy], : self.choices[policy]]

    def encode(self, joint_action: Tensor) -> Tensor:
        """Return zero-padded codes (B, A, code_width) of environment actions (B, A) or (B, A, K)."""
        codes = {}
        for name, learner in self.learners.items():
            action = joint_action[:, self.rows[name]]
            codes[name] = learner.head.encode(action if action.dim() == 2 else action[..., : self.action_width[name]])
        return self._gather(codes)

    def query_policies(self, state: Tensor, stream: SingleStream, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return codes (B, A, code_width) of all agents' next actions, and entropies (B, n) of this policy's own."""
        answers = {
            name: learner.target_actions(self.obs(state, name), stream, self.mask(mask, name))
            for name, learner in self.learners.items()
        }
        return self._gather({name: code for name, (code, _) in answers.items()}), answers[self.policy][1]

    def group_codes(self, codes: Tensor) -> Tensor:
        """Return the codes (B, n, width) of this policy's agents."""
        return codes[:, self.rows[self.policy], : self.choices[self.policy]]

    def _gather(self, codes: Mapping[str, Tensor]) -> Tensor:
        first = next(iter(codes.values()))
        joint = torch.zeros((first.shape[0], self.agents, self.code_width), device=first.device)
        for name, code in codes.items():
            joint[:, self.rows[name], : code.shape[-1]] = code
        return joint


class JointCritic(Network):
    """Critic of all agents' observations and the other agents' codes, evaluated for each of n agents.

    The input for an agent consists of all observations, the other agents' codes, its one-hot index, and its own code
    unless the critic values all choices. This input (B, n, `width`) is never built. The first layer is applied once per
    world, the agent's own part is subtracted, and the rest is added. So n agents cost n times the first layer's width,
    not n times the state's. Only a module from elsewhere gets the input itself.
    """

    def __init__(
        self, config: CriticConfig, view: JointObservation, code_width: int, outputs: int, generator: torch.Generator
    ) -> None:
        """Build the network; `code_width` is the width of the agent's code, other arguments as in `Network`."""
        rows, codes = view.rows[view.policy], view.width - view.state_width
        parts = {"state": view.state_width, "actions": codes, "agent": len(rows), "action": code_width}
        spec = config.state_spec(parts)  # it sees several images
        super().__init__(
            spec | ({"network": config.network} if config.image else {}), outputs, 1.0, generator, "critic"
        )
        self.agents: int = view.agents
        self.state_width: int = view.state_width
        self.register_buffer("rows", rows, persistent=False)

    rows: Tensor
    """(n,) int64, rows of the policy's agents among all agents."""

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]  critics get no masks
        self, x: Tensor, code: Tensor | None = None
    ) -> Tensor:
        """Map situations (B, `JointObservation.width`) and optional own codes (B, n, own) to (B, n, outputs)."""
        state, codes = x.split([self.state_width, x.shape[-1] - self.state_width], -1)
        n = self.rows.shape[0]
        if not isinstance(self.module, MLP):
            is_own = nn.functional.one_hot(self.rows, self.agents).unsqueeze(-1).to(x.dtype)  # (n, A, 1)
            of_others = codes.view(len(x), 1, self.agents, -1) * (1.0 - is_own)  # (B, n, A, C)
            agents = torch.eye(n, dtype=x.dtype, device=x.device).expand(len(x), n, n)
            parts = [state.unsqueeze(1).expand(-1, n, -1), of_others.flatten(2), agents]
            return super().forward(torch.cat(parts if code is None else [*parts, code], -1))
        first, after = self.module.body[0], self.module.body[1:]
        assert isinstance(first, torch.nn.Linear)
        features = self.module.features(state)  # convolutions run once per world
        weights = first.weight.split(
            [features.shape[-1], codes.shape[-1], n, 0 if code is None else code.shape[-1]], -1
        )
        of_state, of_codes, of_place, of_own = weights
        world = torch.addmm(first.bias, features, of_state.T).addmm(codes, of_codes.T)  # (B, H)
        mine = codes.unflatten(-1, (self.agents, -1))[:, self.rows].transpose(0, 1)  # (n, B, C)
        of_mine = of_codes.unflatten(-1, (self.agents, -1))[:, self.rows].permute(1, 2, 0)  # (n, C, H)
        agent = of_place.T.unsqueeze(1).baddbmm(mine, of_mine, alpha=-1.0).transpose(0, 1)  # (B, n, H)
        if code is not None:
            agent = agent + code @ of_own.T
        return after(agent + world.unsqueeze(1)).to(x.dtype)  # autocast returns bfloat16


class JointCriticLearner(CriticLearner):
    """Learner with critics of all agents' observations and actions, and a replay shared by all learners.

    Agents that share a policy share critics, which get the agent's index. The learner of the first agent creates, saves
    and restores the replay. It stores each step once: observations, actions, rewards and masks of all agents. Call
    `set_co_learners` before training.
    """

    central_input: CentralInput = "joint"

    def __init__(self, config: Any, spec: LearnerSpec) -> None:
        """Build networks and buffers."""
        self.view: JointObservation = JointObservation(spec)
        self.first: str = spec.agents[0].policy
        self.moved: set[str] = set()  # policies whose rollout is in the replay already
        super().__init__(config, spec)
        self.state_normalizer: ObservationNormalizer = ObservationNormalizer(spec.state_width).to(self.device)
        self.net["state_normalizer"] = self.state_normalizer

    def set_co_learners(self, learners: Mapping[str, JointCriticLearner]) -> None:
        """Set all learners by policy, including this one; critic targets query their policies.

        The caller keeps the learners.
        """
        self.view.learners = {name: weakref.proxy(learner) for name, learner in learners.items()}  # no reference cycle
        self.replay = learners[self.first].replay

    def _fields(self, spec: LearnerSpec) -> Fields:
        if spec.policy != self.first:
            return {}
        row = (self.view.agents,)
        widest = max(player.action_space.shape or () for player in spec.agents)
        fields: dict[str, tuple[tuple[int, ...], torch.dtype]] = {"reward": (row, torch.float32)}
        fields |= dict.fromkeys(("terminated", "valid"), (row, torch.bool))
        fields |= dict.fromkeys(("state", "next_state"), ((spec.state_width,), torch.float32))
        fields["joint_action"] = (*row, *widest), self.head.action_dtype
        if spec.has_action_mask:
            fields |= dict.fromkeys(("mask", "next_mask"), ((*row, self.view.code_width), torch.bool))
        return fields

    def _make_critic(self, spec: LearnerSpec, code_width: int, outputs: int, weights: torch.Generator) -> Network:
        return JointCritic(self.config, self.view, code_width, outputs, weights)

    def _values(
        self, critics: nn.ModuleList, situation: Tensor, code: Tensor | None = None, hidden_states: object = None
    ) -> Tensor:
        if code is None:
            return torch.stack([critic(situation) for critic in critics])
        return torch.stack([critic(situation, code).squeeze(-1) for critic in critics])

    def _normalize(self) -> None:
        super()._normalize()
        rollout = self.rollout
        assert rollout.state is not None
        self.state_normalizer.update(rollout.state[:-1], rollout.valid.any(-1), self.reducer.sum)

    @torch.no_grad()
    def _prepare_batch(self, sampled: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the network inputs; situations (B, ...) hold all observations and actions."""
        view, state, next_state = self.view, sampled["state"], sampled["next_state"]
        codes, stream = view.encode(sampled["joint_action"]), self._noise_stream(sampled)
        next_codes, next_entropy = view.query_policies(next_state, stream, sampled.get("next_mask"))
        inputs = {name: sampled[name] for name in COPIED_FIELDS if name in sampled}
        inputs["obs"] = self.normalizer(view.obs(state, view.policy))
        if "mask" in sampled:
            inputs["mask"] = sampled["mask"][:, view.rows[view.policy], : view.choices[view.policy]]
        inputs["situation"] = torch.cat([self.state_normalizer(state), codes.flatten(1)], -1)
        inputs["next_situation"] = torch.cat([self.state_normalizer(next_state), next_codes.flatten(1)], -1)
        inputs |= {"code": view.group_codes(codes), "next_code": view.group_codes(next_codes)}
        inputs["next_entropy"] = next_entropy
        return inputs

    def _store_rollout(self) -> None:
        """Move the rollouts of all policies to the replay, unless another learner did."""
        moved = self.view.learners[self.first].moved
        if self.view.policy in moved:
            moved.remove(self.view.policy)
        else:
            moved.update(self.view.learners.keys() - {self.view.policy})
            self.replay.add(self._joint_steps())

    def _joint_steps(self) -> dict[str, Tensor]:
        """Return the rollouts of all policies as steps of all agents, (T, E, ...) by name."""
        r, learners = self.rollout, self.view.learners
        for learner in learners.values():
            learner._check_rollout()
        assert r.state is not None
        assert r.joint_action is not None
        outcomes = {name: learner._outcome() for name, learner in learners.items()}
        steps = {
            field: self._merge_policies({policy: outcome[field] for policy, outcome in outcomes.items()})
            for field in outcomes[self.view.policy]
        }
        steps |= {"state": r.state[:-1], "next_state": r.next_state(), "joint_action": r.joint_action[: r.length]}
        if r.mask is not None:
            masks = {name: learner.rollout.mask for name, learner in learners.items()}
            mask = self._merge_policies(masks, self.view.code_width)
            steps |= {"mask": mask[:-1], "next_mask": mask[1:]}
            # the legal actions of an agent that was cut are unknown, so the next value of its world is unknown
            truncated = self._merge_policies({name: learner.rollout.truncated for name, learner in learners.items()})
            cut = truncated & steps["valid"]
            cut = (cut & ~steps["terminated"]).any(-1, keepdim=True)
            steps["valid"] = steps["valid"] & (steps["terminated"] | ~cut)
        return steps

    def _merge_policies(self, parts: Mapping[str, Any], width: int = 0) -> Tensor:
        """Merge parts (T, E, n) by policy to (T, E, A), or parts with a last axis to (T, E, A, width)."""
        first = parts[self.view.policy]
        shape = (*first.shape[:2], self.view.agents, *([width] if width else []))
        merged = torch.zeros(shape, dtype=first.dtype, device=first.device)
        for name, rows in self.view.rows.items():
            if width:
                merged[:, :, rows, : parts[name].shape[-1]] = parts[name]
            else:
                merged[:, :, rows] = parts[name]
        return merged

    def draw(self) -> dict[str, Tensor]:
        """Return steps as `CriticLearner.draw`; rewards, ends and validity are for this policy's agents (B, n)."""
        sampled, rows = super().draw(), self.view.rows[self.view.policy]
        return sampled | {name: sampled[name][:, rows] for name in ("reward", "terminated", "valid")}

    def _replay_state(self) -> State:
        return super()._replay_state() if self.view.policy == self.first else {}

    def _load_replay(self, state: State) -> None:
        if self.view.policy == self.first:
            super()._load_replay(state)
