"""Cross-play: who beats whom, with intervals.

Reward in self-play hardly moves in zero-sum games and proves nothing; what counts is each side against a fixed
opponent. Every world plays exactly one episode and is counted once, so that short episodes are not over-represented.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gpu_envs.core import Core
from gpu_envs.errors import CheckpointError, GpuEnvsError
from trainers import checkpoint
from trainers.agents import Agents, agents_of, members_of
from trainers.checkpoint import Checkpoint
from trainers.crew import Crew, alike
from trainers.heads import spec_like
from trainers.logs import Progress
from trainers.policy import Plays, Policy
from trainers.settings import SEEDS

Players = Mapping[str, Plays | None]
"""Who plays each group or agent, by its name; None, like all that are not named, play at random."""


@dataclass(frozen=True)
class Estimate:
    """Mean over episodes and the half-width of its 95 % interval (normal approximation, 1.96 standard errors)."""

    mean: float
    """Over episodes."""
    half: float
    """Half the width of the interval, in the mean's unit."""

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.half:.2f}"


@dataclass(frozen=True)
class Outcome:
    """What a number of episodes gave."""

    episodes: int
    """How many were played to their end."""
    length: Estimate
    """Steps until all agents of the world were done."""
    returns: dict[str, Estimate]
    """By group: sum of the rewards of all its agents over the episode."""
    survivors: dict[str, Estimate]
    """By group: agents that no rule ended. It means something where agents leave one by one, see `leaves`."""
    leaves: dict[str, bool]
    """By group: some agent left before its world's episode ended."""


def policies_of(saved: Checkpoint, sides: Mapping[str, Sequence[str]], core: Core) -> dict[str, Policy]:
    """The policies that the sides need, checked against the environment they are to play in.

    Raises:
        CheckpointError: A policy is missing, or sees or does something else than its agents here.
    """
    policies = {name: saved.policy(name, core.device) for name in sides}
    for name, members in sides.items():
        policy, agents = policies[name], agents_of(core, members)
        given, count = policy.spec["action"], len(members_of(core, members))
        for what, wanted, got in (
            ("obs_width", agents.width, policy.obs_width),
            ("action", spec_like(given, agents.space), given),
            ("ids", count if policy.ids else 0, policy.ids),
        ):
            if wanted != got:
                file = saved.path / f"policy-{name}.json"
                raise CheckpointError(f"{file}: {what}: expected {wanted} as in this {core.id}, got {got}")
    return policies


def opponents(
    path: Path, env_id: str, sides: Mapping[str, Sequence[str]], core: Core
) -> tuple[Checkpoint, dict[str, Policy]]:
    """The policies of another run or checkpoint of the same environment, for the same sides; CheckpointError if not."""
    saved = checkpoint.load(path)
    if (got := saved.config.get("env_id")) != env_id:
        raise CheckpointError(f"{saved.path / 'manifest.json'}: env_id: expected {env_id}, got {got}")
    return saved, policies_of(saved, sides, core)


@torch.no_grad()
def play(
    core: Core,
    players: Players,
    seed: int,
    greedy: bool = False,
    max_steps: int = 100_000,
    finished_so_far: Callable[[int], None] | None = None,
) -> Outcome:
    """Plays one episode in each world of a core that resets worlds by itself.

    Args:
        core: A core with autoreset "same_step" or "next_step"; E is the number of episodes. Where its time limit can be
            a truncation it should be one, else agents alive at the end do not count as survivors.
        players: A policy, or None for random legal actions, per group.
        seed: Of the worlds and the policies' samples.
        greedy: Policies take their most probable action.
        max_steps: Raise GpuEnvsError if some world has not ended by then.
        finished_so_far: Called now and then with the number of episodes that have ended.
    """
    obs, info = core.reset(seed=seed)
    shape = (core.num_envs, core.num_agents)
    total = torch.zeros(shape, device=core.device)
    length = torch.zeros(core.num_envs, device=core.device)
    finished = torch.zeros(shape, dtype=torch.bool, device=core.device)
    died, left = torch.zeros_like(finished), torch.zeros_like(finished)
    unfinished = torch.ones(core.num_envs, dtype=torch.bool, device=core.device)
    agents = {group: agents_of(core, [group]) for group in core.groups}
    cast = Cast(core, players)
    for index, policy in enumerate({id(p): p for p in players.values() if p is not None}.values()):
        policy.seed((seed + index) % SEEDS)
    every = 1 if core.device.type == "cpu" else 16  # steps between two host syncs
    for step in range(max_steps):
        obs, reward, terminated, truncated, info = core.step(cast.act(obs, info, greedy))
        counted = info["valid"] & unfinished.unsqueeze(1)
        done = (terminated | truncated) & counted
        total += reward.masked_fill(~counted, 0.0)
        length += unfinished
        finished |= done
        died |= terminated & counted
        unfinished = unfinished & ~finished.all(1)
        left |= done & unfinished.unsqueeze(1)
        if step % every == 0:
            going_on = int(unfinished.sum())
            if finished_so_far is not None:
                finished_so_far(core.num_envs - going_on)
            if going_on == 0:
                break
    else:
        count = f"{int(unfinished.sum())} of {core.num_envs}"
        raise GpuEnvsError(
            f"{core.id}: {count} episodes lasted over {max_steps} steps; cut them with max_episode_steps"
        )
    return Outcome(
        episodes=core.num_envs,
        length=estimate(length),
        returns={group: estimate(total[:, agents[group].rows].sum(1)) for group in core.groups},
        survivors={group: estimate((~died[:, agents[group].rows]).sum(1).float()) for group in core.groups},
        leaves={group: bool(left[:, agents[group].rows].any()) for group in core.groups},
    )


Team = tuple[list[str], dict[str, list[str]]]
"""Policies that play for the same, by name, and the groups that each has agents in."""


def teams(core: Core, sides: Mapping[str, Sequence[str]], seed: int) -> list[Team]:
    """Policies that are to be judged together: those with agents in one group, and those with the same rewards.

    Rewards are the same where, in one random episode per world, agents of two groups got the same return on average
    with the same spread.

    Args:
        core: See `play`.
        sides: Groups, or agents, played by each policy name.
        seed: Of the worlds.
    """
    earned = play(core, {}, seed).returns
    each = {group: (e.mean / len(core.groups[group]), e.half / len(core.groups[group])) for group, e in earned.items()}
    found: list[Team] = []
    for name, members in sides.items():
        rows = set(members_of(core, members))
        own = [group for group, agents in core.groups.items() if rows & set(agents)]
        near = [
            team
            for team in found
            if any(
                one == other or (each[one][1] > 0 and np.allclose(each[one], each[other], rtol=1e-5))
                for groups in team[1].values()
                for one in groups
                for other in own
            )
        ]
        merged: Team = ([other for team in near for other in team[0]] + [name], {name: own})
        for team in near:
            merged[1].update(team[1])
            found.remove(team)
        found.append(merged)
    return found


class Cast:
    """Who plays whom in a core: asks the policies for their agents' actions and keeps what they remember.

    Policies of one shape, with equally many agents each, are asked as one, see `trainers.crew`.
    """

    def __init__(self, core: Core, players: Players) -> None:
        """Begins with empty memories, as at a reset of all worlds."""
        self.core = core
        crews: list[list[tuple[list[int], Agents, Plays]]] = []
        for policy in {id(policy): policy for policy in players.values() if policy is not None}.values():
            names = [name for name, each in players.items() if each is policy]  # whom one policy plays act as one
            member = (members_of(core, names), agents_of(core, names), policy)
            for crew in crews:
                if alike(crew[0][2], policy) and len(crew[0][0]) == len(member[0]):
                    crew.append(member)
                    break
            else:
                crews.append([member])
        self.parts = [_Part(core, crew) for crew in crews]

    def act(self, obs: Tensor, info: Mapping[str, Tensor], greedy: bool = False) -> Tensor:
        """Actions of all agents, (E, A) or (E, A, K): random legal ones, overwritten where there is a policy."""
        action, mask = self.core.sample_actions(), info.get("action_mask")
        begins = (self.core.steps == 0)[:, None, None]  # the clock stands at 0 where an episode begins
        for part in self.parts:
            part.act(obs, mask, begins, greedy, action)
        return action


class _Part:
    """One policy of a cast, or several that act as one."""

    def __init__(self, core: Core, members: Sequence[tuple[list[int], Agents, Plays]]) -> None:
        self.agents = [agents for _, agents, _ in members]
        rows, _, self.policy = members[0]
        several = [policy for _, _, policy in members if isinstance(policy, Policy)] if len(members) > 1 else []
        self.crew = Crew(several) if several else None
        leading = (len(several),) if several else ()
        self.memory = self.policy.memory(*leading, core.num_envs, len(rows))

    def act(self, obs: Tensor, mask: Tensor | None, begins: Tensor, greedy: bool, into: Tensor) -> None:
        """Writes actions into those of all agents."""
        if self.memory is not None:
            self.memory.masked_fill_(begins, 0.0)
        if self.crew is None:
            (own,) = self.agents
            own.put(self.policy.act(obs[:, own.rows], own.mask(mask), greedy, self.memory), into)
            return
        seen = torch.stack([obs[:, own.rows] for own in self.agents])
        masks = [legal for own in self.agents if (legal := own.mask(mask)) is not None]
        actions = self.crew.act(seen, torch.stack(masks) if masks else None, greedy, self.memory)
        for own, action in zip(self.agents, actions, strict=True):
            own.put(action, into)


def estimate(samples: Tensor) -> Estimate:
    """Mean and interval of independent samples (N,)."""
    spread = float(samples.double().std()) if samples.numel() > 1 else math.nan
    return Estimate(float(samples.double().mean()), 1.96 * spread / math.sqrt(samples.numel()))


def crossplay(
    core: Core,
    sides: Mapping[str, Sequence[str]],
    trained: Mapping[str, Plays],
    against: Players | None,
    seed: int,
    greedy: bool = False,
    progress: Progress | None = None,
) -> list[tuple[dict[str, str], Outcome]]:
    """Plays every side against random opponents, all sides against each other, and each against others.

    Args:
        core: See `play`.
        sides: Groups, or agents, played by each policy name.
        trained: Policy by name.
        against: Others (of another checkpoint, scripted ones) by group or agent, as in `sides`; or None.
        seed: The same for all matchups, so that they start from the same worlds.
        greedy: See `play`.
        progress: Called with the episodes played so far, of E for each of the `matchups`.

    Returns:
        (who plays each policy: "random", "trained" or "other", outcome), one per matchup.
    """
    results = []
    pools: dict[str, Players] = {"trained": by_member(sides, trained), "other": against or {}, "random": {}}
    for matchup in matchups(list(sides), against is not None):
        players = {member: pools[who].get(member) for name, who in matchup.items() for member in sides[name]}
        before = len(results) * core.num_envs
        text = ", ".join(f"{name} {who}" for name, who in matchup.items())

        def tell(episodes: int, before: int = before, text: str = text) -> None:
            if progress is not None:
                progress(before + episodes, text)

        results.append((matchup, play(core, players, seed, greedy, finished_so_far=tell)))
    return results


def by_member(sides: Mapping[str, Sequence[str]], policies: Mapping[str, Plays]) -> dict[str, Plays]:
    """Who plays each group or agent, out of the policies by name."""
    return {member: policies[name] for name, members in sides.items() for member in members}


def matchups(names: Sequence[str], other: bool) -> list[dict[str, str]]:
    """Who plays each policy, matchup by matchup: "random", "trained" or, if there are others, "other"."""
    matchups = [dict.fromkeys(names, "random"), dict.fromkeys(names, "trained")]
    if len(names) > 1:
        matchups[1:1] = [{name: "trained" if name == side else "random" for name in names} for side in names]
    if other:
        matchups.append(dict.fromkeys(names, "other"))
        if len(names) > 1:
            matchups += [{name: "trained" if name == side else "other" for name in names} for side in names]
    return matchups


def table(results: Sequence[tuple[dict[str, str], Outcome]]) -> str:
    """The cross-play table as aligned text."""
    names, groups = list(results[0][0]), list(results[0][1].returns)
    leaving = [group for group in groups if any(outcome.leaves[group] for _, outcome in results)]
    head = [*names, *(f"{group} return" for group in groups), "episode length", *(f"{g} survivors" for g in leaving)]
    lines = [head]
    for matchup, outcome in results:
        cells = [*outcome.returns.values(), outcome.length, *(outcome.survivors[group] for group in leaving)]
        lines.append([*(matchup[name] for name in names), *map(str, cells)])
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    text.insert(1, "-" * len(text[0]))
    return "\n".join([*text, f"{results[0][1].episodes} episodes each, mean ± half of the 95 % interval"])
