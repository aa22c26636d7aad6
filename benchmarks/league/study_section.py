"""Sections of docs/league.md about studies: exploitability and cross-play of leagues and joint PPO."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from scipy.stats import t as student
from torch import Tensor

from benchmarks.hardware.figure_file import save_figure
from benchmarks.hardware.provenance import ROOT
from trainers.storage.seed_metrics import mean_and_interval

__all__ = ["JOINT", "claims", "difference", "draw", "is_below", "over_seeds", "section", "summary", "values"]

PICTURE = ROOT / "docs" / "league_studies.png"
JOINT, LAST, AVERAGE = "joint PPO", "last policy", "average policy"
"""Name of the baseline at equal steps, and of its sides: the policies at the end, and the mixture of snapshots."""
TITLES = {"leduc": "Leagues on Leduc poker", "simpletag": "Leagues on SimpleTag", "tag": "Leagues on TagContinuous"}
"""Headings by study."""


def values(result: Mapping[str, Any], method: str, side: str) -> list[float]:
    """Return NashConv of a side by seed."""
    runs = result["runs"].get(method, {})
    nash_convs = [runs[seed]["sides"][side].get("nash_conv") for seed in sorted(runs, key=int)]
    return [value for value in nash_convs if value is not None]


def is_below(below: Sequence[float], above: Sequence[float]) -> bool:
    """Return whether the first 95 % interval over seeds lies below the second."""
    if min(len(below), len(above)) < 2:
        return False
    (low, low_half), (high, high_half) = mean_and_interval(below), mean_and_interval(above)
    return low + low_half < high - high_half


def difference(result: Mapping[str, Any], population: str, baseline: str, seat: int) -> list[float]:
    """Return what a population earns in a seat more than the baseline, and half of its interval over seeds.

    Both face the baseline of the same seeds in the other seat; the baseline does not face its own partner.
    """
    returns = result["cross_play"]["returns"]
    if seat == 0:
        earned, reference = (torch.tensor(returns[side][baseline][0]) for side in (population, baseline))
    else:  # columns sit in this seat
        earned, reference = (torch.tensor(returns[baseline][side][1]).T for side in (population, baseline))
    count = len(reference)  # rows: who sits here, columns: who sits opposite
    baseline_mean = (reference.sum(0) - reference.diagonal()) / (count - 1)
    return over_seeds((earned - baseline_mean).double())


def over_seeds(differences: Tensor) -> list[float]:
    """Return the mean of a table (populations, trainings) and half of its 95 % interval over resampled seeds.

    Two crossed random effects: variances of both margins add up; Student's t with the degrees of the smaller margin.
    """
    margins = [differences.mean(1), differences.mean(0)]
    variance = sum(float(margin.var()) / len(margin) for margin in margins)
    return [float(differences.mean()), float(student.ppf(0.975, min(differences.shape) - 1)) * variance**0.5]


def claims(result: Mapping[str, Any]) -> dict[str, dict[str, bool]]:
    """Return by population whether it is less exploitable than joint PPO, and not shown to be worse in cross-play."""
    verdicts = {}
    for population in _populations(result):
        nash_convs = values(result, population, "")
        checks = {f"than its {side}": is_below(nash_convs, values(result, JOINT, side)) for side in _sides(result)}
        if "cross_play" in result:
            baseline = f"{JOINT}, {_sides(result)[0]}"
            for seat, role in enumerate(_roles(result)):
                mean, half = difference(result, population, baseline, seat)
                checks[f"not shown worse as {role}"] = mean + half >= 0
        verdicts[population] = checks
    return verdicts


def summary(name: str, result: Mapping[str, Any]) -> list[str]:
    """Return the rows of a study in the table of all demonstrations, one per population."""
    title, rows = TITLES[name], list[str]()
    for population, checks in claims(result).items():
        met = (
            ", ".join(f"{label}: {'yes' if passed else '**no**'}" for label, passed in checks.items()) or "not complete"
        )
        claim = f"{population} is less exploitable than joint PPO after equal steps, and not worse in cross-play."
        rows.append(f"| [{title}](#{title.lower().replace(' ', '-')}) | {claim} | {met} |")
    return rows


def section(name: str, result: Mapping[str, Any]) -> list[str]:
    """Return the text and the tables of a study."""
    settings = result["settings"]
    budget = settings["budget"]
    how = (
        f"NashConv is a lower bound: best responses of both roles, each of {budget:,} environment steps from the "
        f"weights of the most probable policy, gain this much in {settings['episodes']:,} new episodes. A "
        "response that earns less than the mixture counts as no gain."
        if budget
        else "NashConv is exact: networks are tabulated at all information sets."
    )
    env = ", ".join(f"{key} = {value}" for key, value in settings["env"].items())
    train = ", ".join(f"{key} = {value}" for key, value in settings["train"].items())
    runs = [run for seeds in result["runs"].values() for run in seeds.values()]
    machines = sorted({run["machine"]["cpu"].split(" (")[0] for run in runs})
    commits = sorted({run["commit"] for run in runs})
    lines = [
        f"## {TITLES[name]}",
        "",
        f"{settings['env_id']}{f' ({env})' if env else ''}, {settings['steps']:,} environment steps of each method"
        f"{f', all with {train}' if train else ''}. {how} Intervals are 95 % over seeds (Student's t). Episodes that "
        "fill payoff tables are not counted as steps; the table lists them. Policies of a mixture with a probability "
        "below 0.5 % are omitted. Settings were selected with trial runs, some of them with seeds 0 and 1.",
        "",
        *_exploitability(result, attempts=False),
        "",
        *_cross_play(result),
        *_attempts(result),
        f"`python -m benchmarks.league.study {name}`, commits {', '.join(commits)}, {', '.join(machines)}, 1 thread; "
        f"{sum(run['processor_seconds'] for run in runs) / 60:.0f} minutes of processor time for the trainings.",
        "",
    ]
    return lines


def draw(results: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw NashConv by method with intervals over seeds, one panel per study.

    Args:
        results: Recorded results by study.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 0.5 + 1.9 * len(results)), layout="constrained")
    for index, (name, result) in enumerate(results.items(), start=1):
        axes = figure.add_subplot(len(results), 1, index)
        rows = [
            (_label(method, side), nash_convs)
            for method, about in result["settings"]["methods"].items()
            if not about["tried"]
            for side in next(iter(result["runs"].get(method, {"": {"sides": ()}}).values()))["sides"]
            if (nash_convs := values(result, method, side))
        ]
        for height, (_, nash_convs) in enumerate(rows):
            mean, half = mean_and_interval(nash_convs)
            axes.plot(nash_convs, [height] * len(nash_convs), "o", color="C0", markersize=3, alpha=0.35)
            axes.errorbar(mean, height, xerr=0.0 if math.isnan(half) else half, color="C3", marker="|", capsize=3)
        axes.set_yticks(range(len(rows)), [label for label, _ in rows], fontsize=7)
        axes.invert_yaxis()
        axes.set_title(TITLES[name], fontsize=9)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.3)
    figure.supxlabel(
        "NashConv (SimpleTag, TagContinuous: lower bound); dots are seeds, lines 95 % intervals", fontsize=8
    )
    save_figure(figure, PICTURE, 80)


def _exploitability(result: Mapping[str, Any], attempts: bool) -> list[str]:
    """Return the table of NashConv and cost by method."""
    lines = [
        "| method | NashConv | below joint PPO's last policy | below its average | seeds | steps | payoff episodes | "
        "processor time [s] |",
        "| --- |" + " --- |" * 7,
    ]
    for method, about in result["settings"]["methods"].items():
        runs = result["runs"].get(method, {})
        if bool(about["tried"]) != attempts or not runs:
            continue
        for side in next(iter(runs.values()))["sides"]:
            gains = values(result, method, side)
            steps = statistics.mean(run["steps"] for run in runs.values())
            episodes = statistics.mean(run["episodes"] for run in runs.values())
            seconds = statistics.mean(run["processor_seconds"] for run in runs.values())
            pairs = {baseline: values(result, JOINT, baseline) for baseline in (LAST, AVERAGE)}
            compared = ["" if attempts else _verdict(gains, pairs[baseline], method) for baseline in pairs]
            lines.append(
                f"| {about['tried'] or _label(method, side)} | {_within(mean_and_interval(gains)) if gains else ''} | "
                f"{' | '.join(compared)} | {len(runs)} | {steps:,.0f} | {episodes:,.0f} | {seconds:.0f} |"
            )
    return lines


def _attempts(result: Mapping[str, Any]) -> list[str]:
    """Return the table of what was tried, empty without attempts."""
    table = _exploitability(result, attempts=True)
    if len(table) == 2:
        return []
    return ["What was tried:", "", *table, ""]


def _cross_play(result: Mapping[str, Any]) -> list[str]:
    """Return the table of cross-play, empty before it was played."""
    if "cross_play" not in result:
        return []
    lines = [
        f"Cross-play, {result['cross_play']['episodes']} episodes for each pair of seeds: what the mixture "
        "earns in a seat against joint PPO, minus what joint PPO of other seeds earns there. Intervals are over seeds "
        "of both. Equal samples: joint PPO with as many training samples of all roles as PSRO. Equal time: with the "
        "processor time of PSRO, its payoff table included.",
        "",
        "| population | baseline | " + " | ".join(_roles(result)) + " |",
        "| --- | --- |" + " --- |" * len(_roles(result)),
    ]
    returns = result["cross_play"]["returns"]
    for population in _populations(result):
        for baseline in returns[population]:
            cells = []
            for seat in range(len(_roles(result))):
                mean, half = difference(result, population, baseline, seat)
                word = "better" if mean > half else "**worse**" if mean < -half else "no difference shown"
                cells.append(f"{_within((mean, half))} {word}")
            lines.append(f"| {population} | {baseline} | {' | '.join(cells)} |")
    return [*lines, ""]


def _verdict(nash_convs: Sequence[float], other: Sequence[float], method: str) -> str:
    if method.startswith(JOINT) or not nash_convs or not other:
        return ""
    return "yes" if is_below(nash_convs, other) else "**no**"


def _populations(result: Mapping[str, Any]) -> list[str]:
    return [
        name
        for name, method in result["settings"]["methods"].items()
        if method["population"] and name in result["runs"]
    ]


def _sides(result: Mapping[str, Any]) -> list[str]:
    """Return the names of joint PPO's sides, the last policy first."""
    runs = result["runs"].get(JOINT, {})
    return list(next(iter(runs.values()))["sides"]) if runs else []


def _roles(result: Mapping[str, Any]) -> list[str]:
    run = next(iter(next(iter(result["runs"].values())).values()))
    return list(next(iter(run["sides"].values()))["policies"])


def _label(method: str, side: str) -> str:
    return f"{method}, {side}" if side else method


def _within(pair: tuple[float, float]) -> str:
    return f"{pair[0]:.2f}" + ("" if math.isnan(pair[1]) else f" ± {pair[1]:.2f}")
