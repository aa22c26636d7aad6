"""All agents' observations, actions and masks, as centralised critics take them: view, critic and replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from gymnasium import spaces
from torch import Tensor

from trainers.bodies import Network
from trainers.experience import AS_DRAWN, Experience, ReplayConfig
from trainers.heads import Head
from trainers.learner import State
from trainers.nets import ObservationNormalizer
from trainers.problem import Problem
from trainers.streams import One


class Answers(Protocol):
    """A learner whose policy other learners' critics can ask, and whose steps go to the replay of all."""

    head: Head
    """Distribution and codes of its actions."""
    experience: JointExperience
    """Its rollout and the replay of all."""

    def answer(self, obs: Tensor, stream: One, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Codes (B, n, code_width) of what its agents do next when they see (B, n, D), and entropies (B, n).

        The mask (B, n, choices) tells what is legal then, None: all is. Draws from the asking learner's stream, so
        that learners do not depend on each other's.
        """
        ...


class JointView:
    """What the critic of one policy's n agents sees of a world with A agents: the situation (B, `width`).

    It is all agents' observations and actions, these as codes (see `trainers.heads`), padded to the widest: nothing in
    it is there once per agent. `JointCritic` judges each of the n in it. Agents that have left show zeros, and what
    their policy would do on seeing them.
    """

    def __init__(self, problem: Problem) -> None:
        """Looks up who is where, with which observations and actions."""
        device, players = torch.device(problem.device), problem.players
        self.policy, self.agents = problem.policy, len(players)
        self.state_width, self.padded = problem.state_width, problem.state_width // self.agents
        rows: dict[str, list[int]] = {}
        for player in sorted(players, key=lambda each: each.place):
            rows.setdefault(player.policy, []).append(player.row)
        self.rows = {name: torch.tensor(those, device=device) for name, those in rows.items()}
        self.obs_width = {player.policy: player.obs_width for player in players}
        self.action_width = {player.policy: sum(player.action_space.shape or ()) for player in players}
        self.choices = {player.policy: spaces.flatdim(player.action_space) for player in players}
        self.code_width = max(self.choices.values())
        self.width = problem.state_width + self.agents * self.code_width
        self.learners: Mapping[str, Answers] = {}

    def meet(self, learners: Mapping[str, Answers]) -> None:
        """Takes note of all learners, by policy."""
        self.learners = learners

    def obs(self, state: Tensor, policy: str) -> Tensor:
        """What a policy's agents see, (B, n, D), out of all padded observations (B, A * padded)."""
        return state.unflatten(-1, (self.agents, self.padded))[:, self.rows[policy], : self.obs_width[policy]]

    def mask(self, mask: Tensor | None, policy: str) -> Tensor | None:
        """What is legal for a policy's agents, (B, n, choices), out of all padded masks (B, A, code_width)."""
        return None if mask is None else mask[:, self.rows[policy], : self.choices[policy]]

    def encode(self, joint_action: Tensor) -> Tensor:
        """Codes (B, A, code_width), zero-padded, of the environment's actions (B, A) or (B, A, K)."""
        codes = {}
        for name, learner in self.learners.items():
            action = joint_action[:, self.rows[name]]
            codes[name] = learner.head.encode(action if action.dim() == 2 else action[..., : self.action_width[name]])
        return self._gather(codes)

    def ask(self, state: Tensor, stream: One, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """What all agents do next, codes (B, A, code_width), and entropies (B, n) of the policy's own."""
        answers = {
            name: learner.answer(self.obs(state, name), stream, self.mask(mask, name))
            for name, learner in self.learners.items()
        }
        return self._gather({name: code for name, (code, _) in answers.items()}), answers[self.policy][1]

    def look(
        self,
        drawn: dict[str, Tensor],
        normalizer: ObservationNormalizer,
        state_normalizer: ObservationNormalizer,
        stream: One,
    ) -> dict[str, Tensor]:
        """What networks need of drawn steps, as the learners' `_look` says; situations (B, `width`) are joint."""
        state, next_state = drawn["state"], drawn["next_state"]
        codes = self.encode(drawn["joint_action"])
        next_codes, next_entropy = self.ask(next_state, stream, drawn.get("next_mask"))
        look = {name: drawn[name] for name in AS_DRAWN if name in drawn}
        look["obs"] = normalizer(self.obs(state, self.policy))
        if "mask" in drawn:
            look["mask"] = drawn["mask"][:, self.rows[self.policy], : self.choices[self.policy]]
        look["situation"] = torch.cat([state_normalizer(state), codes.flatten(1)], -1)
        look["next_situation"] = torch.cat([state_normalizer(next_state), next_codes.flatten(1)], -1)
        look |= {"code": self._own(codes), "next_code": self._own(next_codes), "next_entropy": next_entropy}
        return look

    def _own(self, codes: Tensor) -> Tensor:
        """The policy's own codes (B, n, width) out of all."""
        return codes[:, self.rows[self.policy], : self.choices[self.policy]]

    def _gather(self, codes: Mapping[str, Tensor]) -> Tensor:
        first = next(iter(codes.values()))
        joint = torch.zeros((first.shape[0], self.agents, self.code_width), device=first.device)
        for name, code in codes.items():
            joint[:, self.rows[name], : code.shape[-1]] = code
        return joint


class JointCritic(Network):
    """A network on [all agents' observations, the others' codes, which of the n it is, its own code], for each of n.

    The policy's own action is not among the others': the critic gets it apart, or values every choice there is. This
    input, (B, n, `width`), is never made: what the first layer makes of a world it makes once, takes off what is the
    agent's own and adds the rest, so that n agents cost n times the first layer's width and not n times the state's.
    """

    def __init__(
        self, config: ReplayConfig, view: JointView, own: int, outputs: int, generator: torch.Generator
    ) -> None:
        """Args are the settings, what it sees, the width of the agent's own code, and as `Network`."""
        rows = view.rows[view.policy]
        super().__init__(config.spec(view.width + len(rows) + own), outputs, 1.0, generator)
        self.agents, self.state_width = view.agents, view.state_width
        self.register_buffer("rows", rows, persistent=False)

    rows: Tensor
    """(n,) int64, rows of the policy's agents among all."""

    def forward(self, x: Tensor, code: Tensor | None = None) -> Tensor:
        """Situations (B, `JointView.width`) and own codes (B, n, own), if it takes them -> (B, n, outputs)."""
        first, after = self.body[0], self.body[1:]
        assert isinstance(first, torch.nn.Linear)
        state, codes = x.split([self.state_width, x.shape[-1] - self.state_width], -1)
        seen, n = self._features(state), self.rows.shape[0]  # a picture, too, is looked at once
        weights = first.weight.split([seen.shape[-1], codes.shape[-1], n, 0 if code is None else code.shape[-1]], -1)
        of_state, of_codes, of_place, of_own = weights
        world = torch.addmm(first.bias, seen, of_state.T).addmm(codes, of_codes.T)  # (B, H)
        mine = codes.unflatten(-1, (self.agents, -1))[:, self.rows].transpose(0, 1)  # (n, B, C)
        of_mine = of_codes.unflatten(-1, (self.agents, -1))[:, self.rows].permute(1, 2, 0)  # (n, C, H)
        agent = of_place.T.unsqueeze(1).baddbmm(mine, of_mine, alpha=-1.0).transpose(0, 1)  # (B, n, H)
        if code is not None:
            agent = agent + code @ of_own.T
        return after(agent + world.unsqueeze(1))


def joint_values(critics: torch.nn.ModuleList, situation: Tensor, code: Tensor | None = None) -> Tensor:
    """As `trainers.experience.values_of`, of joint critics and situations (B, `JointView.width`)."""
    if code is None:
        return torch.stack([critic(situation) for critic in critics])
    return torch.stack([critic(situation, code).squeeze(-1) for critic in critics])


class JointExperience(Experience):
    """The rollout of one policy's agents, and the one replay that all policies of a training learn from.

    The learner of the first agent makes the replay, saves it and puts it back; the others refer to it. A step is kept
    once: all agents' observations, actions, rewards and masks.
    """

    def __init__(self, config: ReplayConfig, problem: Problem, head: Head, view: JointView) -> None:
        """As `Experience`; before it can `keep` it has to `meet` the others."""
        self.view, self.policy = view, problem.policy
        self.first = problem.players[0].policy
        self.all: Mapping[str, JointExperience] = {}
        self.moved: set[str] = set()
        super().__init__(config, problem, head)

    def _allocate(self, problem: Problem, head: Head) -> None:
        if self.policy != self.first:
            return
        view, row = self.view, (self.view.agents,)
        widest = max(player.action_space.shape or () for player in problem.players)
        fields: dict[str, tuple[tuple[int, ...], torch.dtype]] = {"reward": (row, torch.float32)}
        fields |= dict.fromkeys(("terminated", "valid"), (row, torch.bool))
        fields |= dict.fromkeys(("state", "next_state"), ((problem.state_width,), torch.float32))
        fields["joint_action"] = (*row, *widest), head.action_dtype
        if problem.masked:
            fields |= dict.fromkeys(("mask", "next_mask"), ((*row, view.code_width), torch.bool))
        self.replay = self._ring(problem, fields)

    def meet(self, learners: Mapping[str, Answers]) -> None:
        """Takes note of all learners by policy, of their rollouts and of the replay that they share."""
        self.view.meet(learners)
        self.all = {name: learner.experience for name, learner in learners.items()}
        self.replay = self.all[self.first].replay

    def keep(self) -> None:
        """Moves the rollouts of all policies to the replay, unless another learner has: each calls this once."""
        done = self.all[self.first].moved
        if self.policy in done:
            done.remove(self.policy)
        else:
            done.update(self.all.keys() - {self.policy})
            self.replay.add(self._steps())
        self.rollout.clear()

    def _steps(self) -> dict[str, Tensor]:
        """Rollouts of all policies as steps of all agents, (T, E, ...) by name (one host sync each)."""
        r = self.rollout
        for each in self.all.values():
            each.rollout.check()
        assert r.state is not None
        assert r.joint_action is not None
        outcomes = {name: each.outcome() for name, each in self.all.items()}
        steps = {name: self._everyone(lambda policy, n=name: outcomes[policy][n]) for name in outcomes[self.policy]}
        steps |= {"state": r.state[:-1], "next_state": r.next_state(), "joint_action": r.joint_action[: r.length]}
        if r.mask is not None:
            masks = {name: each.rollout.mask for name, each in self.all.items()}
            mask = self._everyone(lambda policy: masks[policy], self.view.code_width)
            steps |= {"mask": mask[:-1], "next_mask": mask[1:]}
            # what was legal for an agent that is cut is not known: where one is, what follows has no value
            cut = self._everyone(lambda policy: self.all[policy].rollout.truncated) & steps["valid"]
            cut = (cut & ~steps["terminated"]).any(-1, keepdim=True)
            steps["valid"] = steps["valid"] & (steps["terminated"] | ~cut)
        return steps

    def _everyone(self, part: Callable[[str], Any], width: int = 0) -> Tensor:
        """All agents' (T, E, A) out of the parts (T, E, n) of each policy; with a width, (T, E, A, width)."""
        own = part(self.policy)
        shape = (*own.shape[:2], self.view.agents, *([width] if width else []))
        whole = torch.zeros(shape, dtype=own.dtype, device=own.device)
        for name, rows in self.view.rows.items():
            each = part(name)
            if width:
                whole[:, :, rows, : each.shape[-1]] = each
            else:
                whole[:, :, rows] = each
        return whole

    def draw(self, generator: torch.Generator) -> dict[str, Tensor]:
        """As `Experience.draw`: of rewards, ends and validity the policy's agents' (B, n), the rest of all agents."""
        drawn, rows = super().draw(generator), self.view.rows[self.policy]
        return drawn | {name: drawn[name][:, rows] for name in ("reward", "terminated", "valid")}

    def state_dict(self) -> State:
        """The replay, once: nothing from the others."""
        return self.replay.state_dict() if self.policy == self.first else {}

    def load_state_dict(self, state: State) -> None:
        """Puts the replay back, and begins a rollout; CheckpointError where it does not fit."""
        if self.policy == self.first:
            self.replay.load_state_dict(state)
        self.rollout.clear()
