"""Section and figure of docs/league.md about PPO in self-play and PSRO at equal environment steps."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from benchmarks.hardware.figure_file import save_figure
from benchmarks.hardware.provenance import ROOT

PICTURE = ROOT / "docs" / "league_self_play_curves.png"


def section(result: Mapping[str, Any]) -> list[str]:
    """Return the text and the table of one game."""
    settings, runs = result["settings"], result["by_step"]
    steps = runs["PSRO"][0]["curve"][-1][0]
    lines = [
        f"{result['env_id']}, {settings['seeds']} seeds, {steps:,} environment steps of each run. NashConv is exact: "
        "networks are tabulated at all information sets. PPO trains both roles in the same worlds, with a constant "
        "entropy coefficient; 0.2 was selected after single runs with 0.05, 0.1 and 0.2. Its average policy samples "
        "one of up to 40 snapshots at the start of every episode. PSRO has the settings of its preset and "
        f"{settings['iterations']} iterations with learned responses of PPO; the simulated episodes of its payoff "
        "table are not counted as steps. A claim is met if the largest NashConv of PPO over seeds is below the "
        "smallest one of PSRO.",
        "",
        "| method | final NashConv, mean | least | largest | minimum of a run, mean | seconds of a run |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, each in runs.items():
        final = [run["curve"][-1][1] for run in each]
        lowest = statistics.mean(min(value for _, value in run["curve"]) for run in each)
        seconds = statistics.mean(run["seconds"] for run in each)
        numbers = [f"{value:.3f}" for value in (statistics.mean(final), min(final), max(final), lowest)]
        lines.append(f"| {name} | {' | '.join(numbers)} | {seconds:.0f} |")
    return lines


def draw(results: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw NashConv by environment step, one panel per game and one line per seed.

    Args:
        results: Recorded results by demonstration.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.0 + 3.6 * len(results), 3.0), layout="constrained")
    drawn: dict[str, Any] = {}
    for place, result in enumerate(results.values(), start=1):
        axes = figure.add_subplot(1, len(results), place)
        for index, (name, runs) in enumerate(result["by_step"].items()):
            for run in runs:
                steps, values = zip(*run["curve"], strict=True)
                (drawn[name],) = axes.plot([each / 1e6 for each in steps], values, color=f"C{index}", lw=0.9)
        axes.set_yscale("log")
        axes.set_title(result["env_id"], fontsize=9)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.3)
    figure.legend(drawn.values(), drawn.keys(), loc="outside right upper", fontsize=7)
    figure.supxlabel("environment steps [million]", fontsize=8)
    figure.supylabel("NashConv", fontsize=8)
    save_figure(figure, PICTURE, 80)
