"""Cross-play: evaluate every combination of trained, random and other policies, and print the results."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_envs.runtime.core import Core
from gpu_envs.utils.progress import Progress, ProgressBar
from gpu_envs.utils.terminal import all_rows, terminal_width
from trainers.evaluation.kernel_episodes import KernelPlayers
from trainers.evaluation.policy_evaluation import (
    NO_METRICS,
    EpisodeMetric,
    Estimate,
    EvaluationResult,
    by_member,
    evaluate_policies,
)
from trainers.models.policy import Policy, PolicyProtocol
from trainers.models.policy_set import Players


def cross_play(
    core: Core,
    sides: Mapping[str, Sequence[str]],
    trained: Mapping[str, PolicyProtocol],
    against: Players | None,
    seed: int,
    greedy: bool = False,
    progress: Progress | None = None,
    engine: str = "auto",
    metrics: Mapping[str, EpisodeMetric] = NO_METRICS,
) -> list[tuple[dict[str, str], EvaluationResult]]:
    """Evaluate trained policies against random opponents, against each other, and against other policies.

    Args:
        core: Environments, see `evaluate_policies`; each matchup plays one episode per environment.
        sides: Groups or agents that each policy controls, by its name.
        trained: Trained policies by name.
        against: Other policies by group or agent, such as scripted ones or another checkpoint's; None: none.
        seed: Random seed, equal for all matchups, so that they start from the same states.
        greedy: Take the most probable actions instead of samples.
        progress: Called with the number of episodes played so far.
        engine: Engine of every matchup, see `evaluate_policies`.
        metrics: Functions of the episodes of every matchup by name.

    Returns:
        One pair per matchup: "random", "trained" or "other" by policy name, and the result. Where one policy plays all
        seats of a zero-sum game, whose rewards cancel, it is by the agent of each seat instead.
    """
    results = []
    pools: dict[str, Players] = {"trained": by_member(sides, trained), "other": against or {}, "random": {}}
    if seats := _seats(core, sides):
        sides = {agent: [agent] for agent in seats}
        pools = {
            name: {agent: pool.get(agent, pool.get(group)) for agent, group in seats.items()}
            for name, pool in pools.items()
        }
    kernels = KernelPlayers(core, [pools["trained"], pools["other"]])
    for matchup in matchups(list(sides), against is not None):
        players = {member: pools[source].get(member) for name, source in matchup.items() for member in sides[name]}
        offset = len(results) * core.num_envs
        text = ", ".join(f"{name} {source}" for name, source in matchup.items())

        def report(episodes: int, offset: int = offset, text: str = text) -> None:
            if progress is not None:
                progress(offset + episodes, text)

        result = evaluate_policies(
            core,
            players,
            seed,
            greedy,
            finished_so_far=report,
            engine=engine,
            kernels=kernels,
            last_info=core.definition.results,
            metrics=metrics,
        )
        results.append((matchup, result))
    return results


def _seats(core: Core, sides: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the group of each agent where one policy plays all seats of a zero-sum game; {} otherwise."""
    definition = core.definition
    seats = {agent: group for group, rows in core.groups.items() for agent in (core.possible_agents[r] for r in rows)}
    one_each = sorted(definition.roles.values()) == sorted((agent,) for agent in seats)
    return seats if definition.zero_sum and len(sides) == 1 and len(seats) > 1 and one_each else {}


def matchups(names: Sequence[str], other: bool) -> list[dict[str, str]]:
    """Return "random", "trained" or "other" by policy name, for every matchup; `other` adds those with "other"."""
    matchups = [dict.fromkeys(names, "random"), dict.fromkeys(names, "trained")]
    if len(names) > 1:
        matchups[1:1] = [{name: "trained" if name == side else "random" for name in names} for side in names]
    if other:
        matchups.append(dict.fromkeys(names, "other"))
        if len(names) > 1:
            matchups += [{name: "trained" if name == side else "other" for name in names} for side in names]
    return matchups


def estimates(results: Sequence[tuple[dict[str, str], EvaluationResult]]) -> list[dict[str, Estimate]]:
    """Return the columns of the table of results by name, such as "adversary return", for every matchup."""
    names, groups = list(results[0][0]), list(results[0][1].returns)
    by_agent = not set(names) - results[0][1].agent_returns.keys() and len(names) > 1
    leaving = [group for group in groups if any(outcome.leaves[group] for _, outcome in results)]
    rows = []
    for _, outcome in results:
        returns = outcome.agent_returns if by_agent else outcome.returns
        row = {f"{name} return": returns[name] for name in (names if by_agent else groups)}
        row |= {"episode length": outcome.length, **{f"{name} survivors": outcome.survivors[name] for name in leaving}}
        row |= {f"{group} {name}": value for name, by in outcome.last_info.items() for group, value in by.items()}
        rows.append({**row, **outcome.metrics})
    return rows


def table(results: Sequence[tuple[dict[str, str], EvaluationResult]], width: int | None = None) -> str:
    """Format the results as a table in aligned text, with a column per matchup if a terminal is too narrow for rows.

    Args:
        results: Matchups and their results.
        width: Number of columns of the terminal; None for any width.
    """
    rows = estimates(results)
    lines = [[*results[0][0], *rows[0]]]
    lines += [[*matchup.values(), *map(str, row.values())] for (matchup, _), row in zip(results, rows, strict=True)]
    return "\n".join(
        [*all_rows(lines, width), f"{results[0][1].episodes} episodes each, mean ± half of the 95 % interval"]
    )


def play_and_print(
    core: Core,
    sides: Mapping[str, Sequence[str]],
    trained: Mapping[str, Policy],
    other: Players | None,
    seed: int,
    greedy: bool = False,
    engine: str = "auto",
    metrics: Mapping[str, EpisodeMetric] = NO_METRICS,
) -> list[tuple[dict[str, str], EvaluationResult]]:
    """Play every matchup with a progress bar, and print the table."""
    total = core.num_envs * len(matchups(list(_seats(core, sides) or sides), other is not None))
    with ProgressBar(total, "episodes", file=sys.stderr) as progress:
        results = cross_play(core, sides, trained, other, seed, greedy, progress, engine, metrics)
    print(table(results, terminal_width(sys.stdout)))
    return results


def as_json(results: Sequence[tuple[dict[str, str], EvaluationResult]]) -> dict[str, Any]:
    """Return the results in values that JSON can hold."""
    return {"matchups": [{"policies": matchup, **dataclasses.asdict(outcome)} for matchup, outcome in results]}
