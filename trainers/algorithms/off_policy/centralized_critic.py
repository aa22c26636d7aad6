"""Centralized critics: inputs from all agents, the critic network, and the replay shared by all learners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from gymnasium import spaces
from torch import Tensor

from trainers.algorithms.off_policy.replay_learner import COPIED_FIELDS, ReplayConfig, ReplayStore
from trainers.base.learner_spec import LearnerSpec
from trainers.base.random_streams import SingleStream
from trainers.base.state import State
from trainers.buffers.replay_buffer import ReplayBuffer
from trainers.models.action_heads import Head
from trainers.models.networks import Network
from trainers.models.normalization import ObservationNormalizer

__all__ = ["JointCritic", "JointObservation", "JointReplayStore", "TargetActionProvider", "joint_values"]


class TargetActionProvider(Protocol):
    """Learner whose policy the critics of other learners query, and whose steps go to the shared replay."""

    head: Head
    """Action head: distribution and codes of actions."""
    experience: JointReplayStore
    """Rollout of the learner, and the shared replay."""

    def target_actions(self, obs: Tensor, stream: SingleStream, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return codes (B, n, code_width) of the policy's actions on observations (B, n, D), and entropies (B, n).

        Noise comes from the stream of the calling learner, so that learners do not depend on each other's streams.

        Args:
            obs: (B, n, D) observations.
            stream: Random stream of the calling learner.
            mask: (B, n, choices), True = legal; None: all actions are legal.
        """
        ...


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
        self.learners: Mapping[str, TargetActionProvider] = {}

    def set_co_learners(self, learners: Mapping[str, TargetActionProvider]) -> None:
        """Store all learners, by policy."""
        self.learners = learners

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

    def prepare_batch(
        self,
        sampled: dict[str, Tensor],
        normalizer: ObservationNormalizer,
        state_normalizer: ObservationNormalizer,
        stream: SingleStream,
    ) -> dict[str, Tensor]:
        """Return the network inputs of sampled steps, see the learners' `_prepare_batch`."""
        state, next_state = sampled["state"], sampled["next_state"]
        codes = self.encode(sampled["joint_action"])
        next_codes, next_entropy = self.query_policies(next_state, stream, sampled.get("next_mask"))
        inputs = {name: sampled[name] for name in COPIED_FIELDS if name in sampled}
        inputs["obs"] = normalizer(self.obs(state, self.policy))
        if "mask" in sampled:
            inputs["mask"] = sampled["mask"][:, self.rows[self.policy], : self.choices[self.policy]]
        inputs["situation"] = torch.cat([state_normalizer(state), codes.flatten(1)], -1)
        inputs["next_situation"] = torch.cat([state_normalizer(next_state), next_codes.flatten(1)], -1)
        inputs |= {"code": self._group_codes(codes), "next_code": self._group_codes(next_codes)}
        inputs["next_entropy"] = next_entropy
        return inputs

    def _group_codes(self, codes: Tensor) -> Tensor:
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
    not n times the state's.
    """

    def __init__(
        self, config: ReplayConfig, view: JointObservation, code_width: int, outputs: int, generator: torch.Generator
    ) -> None:
        """Build the network; `code_width` is the width of the agent's code, other arguments as in `Network`."""
        rows = view.rows[view.policy]
        body = "mlp" if config.network == "cnn" and not config.image else config.network  # it sees several images
        super().__init__({**config.spec(view.width + len(rows) + code_width), "network": body}, outputs, 1.0, generator)
        self.agents: int = view.agents
        self.state_width: int = view.state_width
        self.register_buffer("rows", rows, persistent=False)

    rows: Tensor
    """(n,) int64, rows of the policy's agents among all agents."""

    def forward(self, x: Tensor, code: Tensor | None = None) -> Tensor:
        """Map situations (B, `JointObservation.width`) and optional own codes (B, n, own) to (B, n, outputs)."""
        first, after = self.body[0], self.body[1:]
        assert isinstance(first, torch.nn.Linear)
        state, codes = x.split([self.state_width, x.shape[-1] - self.state_width], -1)
        features, n = self._features(state), self.rows.shape[0]  # convolutions run once per world
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


def joint_values(critics: torch.nn.ModuleList, situation: Tensor, code: Tensor | None = None) -> Tensor:
    """Return `replay_learner.critic_values` of joint critics for situations (B, `JointObservation.width`)."""
    if code is None:
        return torch.stack([critic(situation) for critic in critics])
    return torch.stack([critic(situation, code).squeeze(-1) for critic in critics])


class JointReplayStore(ReplayStore):
    """Rollout of one policy's agents, and the replay shared by all policies.

    The learner of the first agent creates, saves and restores the replay. It stores each step once: observations,
    actions, rewards and masks of all agents.
    """

    def __init__(self, config: ReplayConfig, spec: LearnerSpec, head: Head, view: JointObservation) -> None:
        """Allocate the rollout; call `set_co_learners` before `store_rollout`."""
        self.view: JointObservation = view
        self.policy: str = spec.policy
        self.first: str = spec.agents[0].policy
        self.all: Mapping[str, JointReplayStore] = {}
        self.moved: set[str] = set()
        super().__init__(config, spec, head)

    def _allocate(self, spec: LearnerSpec, head: Head) -> None:
        if self.policy != self.first:
            return
        view, row = self.view, (self.view.agents,)
        widest = max(player.action_space.shape or () for player in spec.agents)
        fields: dict[str, tuple[tuple[int, ...], torch.dtype]] = {"reward": (row, torch.float32)}
        fields |= dict.fromkeys(("terminated", "valid"), (row, torch.bool))
        fields |= dict.fromkeys(("state", "next_state"), ((spec.state_width,), torch.float32))
        fields["joint_action"] = (*row, *widest), head.action_dtype
        if spec.has_action_mask:
            fields |= dict.fromkeys(("mask", "next_mask"), ((*row, view.code_width), torch.bool))
        self.replay = self._ring(spec, fields)

    def set_co_learners(self, learners: Mapping[str, TargetActionProvider]) -> None:
        """Store all learners' rollouts, by policy, and the shared replay."""
        self.view.set_co_learners(learners)
        self.all = {name: learner.experience for name, learner in learners.items()}
        self.replay: ReplayBuffer = self.all[self.first].replay

    def store_rollout(self) -> None:
        """Move the rollouts of all policies to the replay, unless another learner did; each learner calls this once."""
        done = self.all[self.first].moved
        if self.policy in done:
            done.remove(self.policy)
        else:
            done.update(self.all.keys() - {self.policy})
            self.replay.add(self._steps())
        self.rollout.clear()

    def _steps(self) -> dict[str, Tensor]:
        """Return the rollouts of all policies as steps of all agents, (T, E, ...) by name."""
        r = self.rollout
        for store in self.all.values():
            store.check_rollout()
        assert r.state is not None
        assert r.joint_action is not None
        outcomes = {name: store.outcome() for name, store in self.all.items()}
        steps = {
            name: self._merge_policies(lambda policy, n=name: outcomes[policy][n]) for name in outcomes[self.policy]
        }
        steps |= {"state": r.state[:-1], "next_state": r.next_state(), "joint_action": r.joint_action[: r.length]}
        if r.mask is not None:
            masks = {name: store.rollout.mask for name, store in self.all.items()}
            mask = self._merge_policies(lambda policy: masks[policy], self.view.code_width)
            steps |= {"mask": mask[:-1], "next_mask": mask[1:]}
            # the legal actions of an agent that was cut are unknown, so the next value of its world is unknown
            cut = self._merge_policies(lambda policy: self.all[policy].rollout.truncated) & steps["valid"]
            cut = (cut & ~steps["terminated"]).any(-1, keepdim=True)
            steps["valid"] = steps["valid"] & (steps["terminated"] | ~cut)
        return steps

    def _merge_policies(self, part: Callable[[str], Any], width: int = 0) -> Tensor:
        """Merge parts (T, E, n) of each policy to (T, E, A), or parts with a last axis to (T, E, A, width)."""
        first = part(self.policy)
        shape = (*first.shape[:2], self.view.agents, *([width] if width else []))
        merged = torch.zeros(shape, dtype=first.dtype, device=first.device)
        for name, rows in self.view.rows.items():
            values = part(name)
            if width:
                merged[:, :, rows, : values.shape[-1]] = values
            else:
                merged[:, :, rows] = values
        return merged

    def draw(self, generator: torch.Generator) -> dict[str, Tensor]:
        """Return steps as `ReplayStore.draw`; rewards, ends and validity are for this policy's agents (B, n)."""
        sampled, rows = super().draw(generator), self.view.rows[self.policy]
        return sampled | {name: sampled[name][:, rows] for name in ("reward", "terminated", "valid")}

    def state_dict(self) -> State:
        """Return the replay from the first learner, and nothing from the others."""
        return self.replay.state_dict() if self.policy == self.first else {}

    def load_state_dict(self, state: State) -> None:
        """Restore the replay and start a rollout; raise CheckpointError if the state does not fit."""
        if self.policy == self.first:
            self.replay.load_state_dict(state)
        self.rollout.clear()
