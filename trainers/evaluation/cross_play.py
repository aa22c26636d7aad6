"""Cross-play: evaluate every combination of trained, random and other policies, and print the results."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from gpu_envs.runtime.core import Core
from gpu_envs.utils.progress import Progress, ProgressBar
from gpu_envs.utils.terminal import all_rows
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
from trainers.storage.seed_metrics import mean_and_interval

Results: TypeAlias = Sequence[tuple[dict[str, str], EvaluationResult]]
"""Matchups, "random", "trained" or "other" by policy name, and their results."""


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
) -> Results:
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
    pools: Mapping[str, Players] = {"trained": by_member(sides, trained), "other": against or {}, "random": {}}
    sides, pools = by_seat(core, sides, pools)
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


def by_seat(
    core: Core, sides: Mapping[str, Sequence[str]], pools: Mapping[str, Players]
) -> tuple[Mapping[str, Sequence[str]], Mapping[str, Players]]:
    """Return sides and pools of policies; by agent where one policy plays all seats of a zero-sum game.

    Args:
        core: The environments.
        sides: Groups or agents that each policy controls, by its name.
        pools: Policies by group or agent, such as those of a run, by the name of the pool.
    """
    seats = _seats(core, sides)
    if not seats:
        return sides, pools
    seated = {
        name: {agent: pool.get(agent, pool.get(group)) for agent, group in seats.items()}
        for name, pool in pools.items()
    }
    return {agent: [agent] for agent in seats}, seated


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


def estimates(results: Results) -> list[dict[str, Estimate]]:
    """Return the columns of the table of results by name, such as "adversary return", for every matchup."""
    names, groups = list(results[0][0]), list(results[0][1].returns)
    by_agent = _is_by_agent(results)
    leaving = [group for group in groups if any(outcome.leaves[group] for _, outcome in results)]
    rows = []
    for _, outcome in results:
        returns = outcome.agent_returns if by_agent else outcome.returns
        row = {f"{name} return": returns[name] for name in (names if by_agent else groups)}
        row |= {"episode length": outcome.length, **{f"{name} survivors": outcome.survivors[name] for name in leaving}}
        row |= {f"{group} {name}": value for name, by in outcome.last_info.items() for group, value in by.items()}
        rows.append({**row, **outcome.metrics})
    return rows


def table(results: Results, width: int | None = None) -> str:
    """Format the results as a table in aligned text, with a column per matchup if a terminal is too narrow for rows.

    Args:
        results: Matchups and their results.
        width: Number of columns of the terminal; None for any width.
    """
    rows = estimates(results)
    lines = [[*results[0][0], *rows[0]]]
    lines += [[*matchup.values(), *map(str, row.values())] for (matchup, _), row in zip(results, rows, strict=True)]
    return "\n".join([*all_rows(lines, width), *_notes(results)])


def _notes(results: Results) -> list[str]:
    """Return the lines below a table: what its numbers are."""
    outcome = results[0][1]
    notes = [f"{outcome.episodes} episodes each, mean ± half of the 95 % interval"]
    if len(outcome.agent_returns) > len(outcome.returns) and not _is_by_agent(results):
        notes.append("returns are per team: the sum over the agents of a group")
    return notes


def _is_by_agent(results: Results) -> bool:
    """Return whether the returns in a table are those of agents, not of groups."""
    names = results[0][0]
    return not set(names) - results[0][1].agent_returns.keys() and len(names) > 1


def table_of_runs(runs: Mapping[str, Results], width: int | None = None) -> str:
    """Format the results of several runs: for every matchup a row per run, and their mean.

    A matchup without trained policies is the same for all runs, and has one row.

    Args:
        runs: Results of the same matchups by run.
        width: Number of columns of the terminal; None for any width.
    """
    first = next(iter(runs.values()))
    lines = list[list[str]]()
    columns = list(dict.fromkeys(name for results in runs.values() for row in estimates(results) for name in row))
    for matchup, rows, mean in _by_matchup(runs):
        named_rows = {**rows, **({"mean": mean} if len(runs) > 1 else {})}
        if "trained" not in matchup.values():
            named_rows = {"": next(iter(rows.values()))}
        for name, row in named_rows.items():
            lines.append([name, *matchup.values(), *(str(row.get(column, "")) for column in columns)])
    text = all_rows([["run", *first[0][0], *columns], *lines], width)
    notes = [f'rows "mean": over the {len(runs)} runs, not over episodes'] if len(runs) > 1 else []
    return "\n".join([*text, *_notes(first), *notes])


def _by_matchup(
    runs: Mapping[str, Results],
) -> Iterator[tuple[dict[str, str], dict[str, dict[str, Estimate]], dict[str, Estimate]]]:
    """Yield every matchup with its estimates by run, and the means over runs with their intervals by Student's t."""
    by_run = {name: estimates(results) for name, results in runs.items()}
    for index, (matchup, _) in enumerate(next(iter(runs.values()))):
        rows = {name: row[index] for name, row in by_run.items()}
        columns = [name for name in next(iter(rows.values())) if all(name in row for row in rows.values())]
        means = {name: Estimate(*mean_and_interval([row[name].mean for row in rows.values()])) for name in columns}
        yield matchup, rows, means


def play(
    core: Core,
    sides: Mapping[str, Sequence[str]],
    trained: Mapping[str, Policy],
    other: Players | None,
    seed: int,
    greedy: bool = False,
    engine: str = "auto",
    metrics: Mapping[str, EpisodeMetric] = NO_METRICS,
) -> Results:
    """Play every matchup with a progress bar, see `cross_play`."""
    total = core.num_envs * len(matchups(list(_seats(core, sides) or sides), other is not None))
    with ProgressBar(total, "episodes", file=sys.stderr) as progress:
        return cross_play(core, sides, trained, other, seed, greedy, progress, engine, metrics)


def as_json(results: Results) -> dict[str, Any]:
    """Return the results in values that JSON can hold."""
    return {"matchups": [{"policies": matchup, **dataclasses.asdict(outcome)} for matchup, outcome in results]}


def runs_as_json(runs: Mapping[str, Results]) -> dict[str, Any]:
    """Return the results of several runs, and the means over the runs, in values that JSON can hold."""
    means = [
        {"policies": matchup, **{name: dataclasses.asdict(estimate) for name, estimate in mean.items()}}
        for matchup, _, mean in _by_matchup(runs)
        if "trained" in matchup.values() and len(runs) > 1
    ]
    return {"runs": {name: as_json(results) for name, results in runs.items()}, "means": means}
