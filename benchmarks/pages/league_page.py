"""docs/league.md and its pictures, from recorded results."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from benchmarks.origin import ROOT

PAGE = ROOT / "docs" / "league.md"
PICTURE = ROOT / "docs" / "league_curves.png"
WIDE = 9
"""Sides that a table of cross-play has room for."""

HEAD = """# What the league shows

Made by `python -m benchmarks.league_shows` from `benchmarks/results/league/shows.json`; do not edit. Every section is
one command, and what it compares ran in turn in one process.

"""


def write(results: Mapping[str, Any], claims: Mapping[str, str]) -> None:
    """Write the page and the curves.

    Args:
        results: By show, as recorded.
        claims: What each show is to show, in the order of the page.
    """
    shown = [name for name in claims if name in results]
    curves = {name: results[name] for name in shown if "lines" in results[name]}
    lines = [HEAD + "| show | claim | met |", "| --- | --- | --- |"]
    for name in shown:
        met = ", ".join(f"{which}: {_met(results[name], which)}" for which in results[name]["met"])
        lines.append(f"| [{name}](#{name}) | {claims[name]} | {met} |")
    lines.append("")
    if curves:
        _draw(curves)
        lines += ["![NashConv over seconds](league_curves.png)", ""]
    for name in shown:
        lines += _about(name, results[name])
    PAGE.write_text("\n".join(lines), encoding="utf-8")


def _met(result: Mapping[str, Any], which: str) -> str:
    """Whether a claim is met; of populations, a plain "yes" only where the interval over seeds lies above 0 too."""
    if not result["met"][which]:
        return "**no**"
    rows = result.get("verdicts", {}).get(which, [])
    sure = all("ahead" in row and row["ahead"][0] > row["ahead"][1] for row in rows)
    return "yes" if sure else "yes (with these seeds; others may differ)"


def _about(name: str, result: Mapping[str, Any]) -> list[str]:
    machine = result["machine"]
    where = (
        f"Commit {result['commit']}, {result['date']}, {machine['cpu'].split(' (')[0]}, {machine['cores']} cores, "
        f"{result['threads']} of them used, torch {machine['torch']}; {result['minutes']:.1f} minutes in all."
    )
    section = _curves if "lines" in result else _cells if "rows" in result else _sides
    return [f"## {name}", "", f"    python -m benchmarks.league_shows {name}", "", *section(result), "", where, ""]


def _cells(result: Mapping[str, Any]) -> list[str]:
    """The table of milliseconds per payoff cell."""
    lines = [
        "Milliseconds per payoff cell of 1,000 games, medians of turns; the ratio is the median of the turns' ratios. "
        f"Ours plays {result['side']} x {result['side']} cells of learned networks in one batch; OpenSpiel's "
        "psro_v2 plays tables, which ask no network, one episode after the other.",
        "",
        "| game | ours | OpenSpiel | ratio | time of cores: ours | OpenSpiel | ratio |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in result["rows"]:
        ours, theirs, ours_cpu, theirs_cpu = (
            statistics.median(row[name]) for name in ("ours", "theirs", "ours_cpu", "theirs_cpu")
        )
        lines.append(
            f"| {row['env_id']} | {ours:.2f} | {theirs:.0f} | {row['ratio']:.1f} | {ours_cpu:.2f} | {theirs_cpu:.0f} | "
            f"{row['ratio_cpu']:.1f} |"
        )
    return lines


def _curves(result: Mapping[str, Any]) -> list[str]:
    """The table of seconds to a NashConv."""
    lines = [
        f"{result['env_id']}, Nash as meta-strategy, 1,000 games per payoff cell. Learned: ours by PPO, OpenSpiel's by "
        "its `RLOracle` with its DQN in PyTorch and the settings of its `psro_v2_example.py`, stopped after the "
        "iteration in which its time was up. Exact: a best response by a walk over the tree. OpenSpiel has Nash from "
        "our linear program, as its own needs packages that it does not install.",
        "",
        f"| responses | of | seconds to NashConv {result['below']:g} | least NashConv | at the end | iterations | "
        "seconds |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for line in sorted(result["lines"], key=lambda line: (line["oracle"] != "learned", line["who"] != "ours")):
        curve = line["curve"]
        first = next((f"{seconds:.1f}" for seconds, value in curve if value <= result["below"]), "not reached")
        least, (seconds, last) = min(value for _, value in curve), curve[-1]
        lines.append(
            f"| {line['oracle']} | {line['who']} | {first} | {least:.3f} | {last:.3f} | {len(curve) - 1} | "
            f"{seconds:.1f} |"
        )
    return lines


def _sides(result: Mapping[str, Any]) -> list[str]:
    """Tables of cross-play."""
    steps = ", ".join(f"{name} {used:,} ({result['seconds'][name]:.0f} s)" for name, used in result["steps"].items())
    grouped = ", means over all of a kind, of no side against itself" if len(result["sides"]) > WIDE else ""
    lines = [
        f"{result['env_id']}. What the seat of each role earns in an episode, with 95 % intervals: rows sit in it, "
        f"columns opposite{grouped}. Steps of worlds that were learned from: {steps}.{_payoffs(result)} "
        "Independent learners train in worlds of "
        'their own (`NoLeagueBuilder`); "together" in the same, each from all of these steps, which is twice as '
        "many as any other role learns from." + _of_league(result["settings"]),
        "",
    ]
    for seat, role in enumerate(result["roles"]):
        lines += [*_table(result, seat, role), ""]
    heads = ("population", "seat", "mixture against independent", "independent against mixture", "over seeds", "apart")
    lines += [f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
    for name, rows in result["verdicts"].items():
        for row in rows:
            pairs = [row["mixture_against_independent"], row["independent_against_mixture"]]
            told = " | ".join(_within(*pair) for pair in pairs)
            ahead = _within(*row["ahead"]) if "ahead" in row else "too few"
            lines.append(f"| {name} | {row['seat']} | {told} | {ahead} | {'yes' if row['apart'] else '**no**'} |")
            for population, means in row["each"].items():
                lines.append(f"| {population} | {row['seat']} | {' | '.join(f'{mean:.1f}' for mean in means)} |  |  |")
    return lines


def _table(result: Mapping[str, Any], seat: int, role: str) -> list[str]:
    """What a seat earns, by who sits there and who sits opposite; of many sides, the means by kind."""
    names, means, halves = result["sides"], result["means"][seat], result["halves"][seat]
    groups = {name: [index] for index, name in enumerate(names)}
    if len(names) > WIDE:
        kinds = dict.fromkeys(name.split()[0] for name in names)
        groups = {kind: [index for index, name in enumerate(names) if name.split()[0] == kind] for kind in kinds}
    lines = [f"| {role} | {' | '.join(groups)} |", f"| --- |{' --- |' * len(groups)}"]
    for row, here in groups.items():
        cells = []
        for opposite in groups.values():
            pairs = [(a, b) if seat == 0 else (b, a) for a in here for b in opposite if a != b or len(here) == 1]
            mean = statistics.mean(means[a][b] for a, b in pairs)
            half = sum(halves[a][b] ** 2 for a, b in pairs) ** 0.5 / len(pairs)
            cells.append(_within(mean, half))
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return lines


def _within(mean: float, half: float) -> str:
    return f"{mean:.1f} ± {half:.1f}"


def _payoffs(result: Mapping[str, Any]) -> str:
    """Episodes that populations play for their payoff tables, from which nobody learns."""
    told = ", ".join(f"{name} {count:,}" for name, count in result.get("payoffs", {}).items())
    return f" Episodes beside them, for payoff tables, from which no policy learns: {told}." if told else ""


def _of_league(settings: Mapping[str, Any]) -> str:
    """Who is in the league, as not all of its kinds of players have to be."""
    given = settings.get("alphastar", {})
    kinds = [
        ("main exploiters", given.get("main_exploiters", 1)),
        ("league exploiters", given.get("league_exploiters", 0)),
    ]
    others = ", ".join(f"{count} {kind}" for kind, count in kinds if count) or "no exploiters"
    return (
        f" The AlphaStar league has one main agent per role, {others}; its mixture is by prd over all frozen players. "
        "Intervals are those of the episodes that were played between these policies. Trainings with other seeds "
        "differ by more: over seeds, the difference of both has the interval of a mean over populations and trainings "
        "that are drawn anew (two crossed random effects, Student's t), where there are three of both or more."
    )


def _draw(results: Mapping[str, Any]) -> None:
    """One panel per game: NashConv over seconds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.6 + 3.6 * len(results), 3.0), layout="constrained")
    drawn: dict[str, Any] = {}
    for place, (name, result) in enumerate(results.items(), start=1):
        axes = figure.add_subplot(1, len(results), place)
        for line in result["lines"]:
            label = f"{line['who']}, {line['oracle']}"
            (drawn[label],) = axes.plot(
                [max(seconds, 0.05) for seconds, _ in line["curve"]],
                [max(value, 1e-3) for _, value in line["curve"]],
                color="C0" if line["who"] == "ours" else "C1",
                linestyle="-" if line["oracle"] == "learned" else ":",
                marker=".",
                markersize=3,
                lw=1.1,
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(name, fontsize=9)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.3)
    figure.legend(drawn.values(), drawn.keys(), loc="outside right upper", fontsize=7)
    figure.supxlabel("seconds", fontsize=8)
    figure.supylabel("NashConv", fontsize=8)
    figure.savefig(PICTURE, dpi=80)
