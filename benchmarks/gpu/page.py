"""Tables and targets of the report, from a result file."""

from dataclasses import dataclass
from typing import Any

from benchmarks.hardware.page_files import table

Row = dict[str, Any]
RATE, SHARE = "env-steps/s", "of measured copy"
"""Units of goals: a speed, and the share of the speed that the measured bandwidth of a copy allows."""


@dataclass(frozen=True)
class GpuGoal:
    """A target for one large GPU."""

    title: str
    env: str
    agents: int
    worlds: int | None
    """None: any number."""
    unit: str
    least: float
    part: str = "goals"
    """Part of the report that measures it."""


GOALS = (
    GpuGoal("SimpleTag at 2^20 worlds", "SimpleTag-v0", 4, 1 << 20, SHARE, 0.5),
    GpuGoal("SimpleTag at 4,096 worlds", "SimpleTag-v0", 4, 4096, RATE, 2.5e8),
    GpuGoal("Tag of 5 taggers and 100 runners, 2,000 worlds", "TagContinuous-v0", 105, 2000, RATE, 3e7),
    GpuGoal("Tag of 1,000 agents, 2,000 worlds: WarpDrive's figure", "TagContinuous-v0", 1000, 2000, RATE, 2.9e6),
    GpuGoal("PPO on SimpleTag, with its updates", "SimpleTag-v0", 4, None, RATE, 5e6, part="training"),
)
"""WarpDrive's figure is the published one on one GPU, arXiv 2108.13976."""
JAXMARL_WORLDS = (4096, 65536)
"""Worlds of the comparison with JaxMARL."""


def rows(result: dict[str, Any], part: str, **fields: Any) -> list[Row]:
    """Return the rows of a part with the given values."""
    entries = result["parts"].get(part, {}).get("rows", [])
    return [row for row in entries if all(row.get(name) == value for name, value in fields.items())]


def bandwidth(result: dict[str, Any]) -> float | None:
    """Return the measured memory bandwidth of the device [B/s]."""
    entries = rows(result, "machine", unit="B/s")
    return entries[0]["value"] if entries else None


def share(result: dict[str, Any], row: Row) -> float | None:
    """Return the minimum share of the bandwidth of a throughput; above 1 if the worlds fit into the caches."""
    rate = bandwidth(result)
    for part in result["parts"]:
        for counted in rows(result, part, mode="bytes", env=row.get("env"), agents=row.get("agents")):
            if rate and "value" in row:
                return counted["value"] * row["value"] / rate
    return None


def goals(result: dict[str, Any]) -> list[Row]:
    """Return the targets for one large GPU with figure and verdict."""
    return [*(_judged(result, goal) for goal in GOALS), _jaxmarl(result)]


def _goal(result: dict[str, Any], title: str, least: float, unit: str, value: float | None, note: str) -> Row:
    """Return a target with its figure and verdict."""
    verdict = "not measured"
    if value is not None:
        verdict = ("met" if value >= least else "not met") if "arch" in result["machine"] else "not judged: no GPU"
    target = f">= {least:g}".replace("e+0", "e")
    return {"goal": title, "target": target, "unit": unit, "value": value, "verdict": verdict, "note": note}


def _best(entries: list[Row]) -> Row | None:
    """Return the fastest row."""
    measured = [row for row in entries if "value" in row]
    return max(measured, key=lambda row: row["value"], default=None)


def _judged(result: dict[str, Any], goal: GpuGoal) -> Row:
    """Return a goal with its figure, the fastest row at its number of agents and worlds."""
    entries = rows(result, goal.part, env=goal.env, agents=goal.agents)
    entries = [row for row in entries if row.get("worlds") == goal.worlds or goal.worlds is None]
    if goal.part == "goals":
        entries = [row for row in entries if row.get("mode") == "in place"]
    best, value, note = _best(entries), None, ""
    if best:
        value = share(result, best) if goal.unit == SHARE else best["value"]
        fraction = share(result, best)
        if goal.unit == SHARE:
            note = f"{number(best['value'])} env-steps/s"
        elif fraction:
            note = f"the bandwidth allows {number(best['value'] / fraction)}"
    if best and goal.worlds is None:
        note = f"{best['worlds']:,} worlds, {best['mode']}"
    return _goal(result, goal.title, goal.least, goal.unit, value, note)


def _jaxmarl(result: dict[str, Any]) -> Row:
    """Return the target of ten times JaxMARL at two batch sizes, with the smaller ratio."""
    ratios, notes = [], []
    for worlds in JAXMARL_WORLDS:
        theirs = _best(rows(result, "jaxmarl", peer="JaxMARL", worlds=worlds))
        native = _best(rows(result, "goals", env="SimpleTag-v0", mode="copied", worlds=worlds))
        if theirs and native:
            ratios.append(native["value"] / theirs["value"])
            notes.append(f"{worlds:,} worlds: {number(native['value'])} over {number(theirs['value'])}")
    least = min(ratios) if len(ratios) == len(JAXMARL_WORLDS) else None
    note = "; ".join(notes) or result["parts"].get("jaxmarl", {}).get("status", "not run")
    sizes = " and ".join(f"{worlds:,}" for worlds in JAXMARL_WORLDS)
    return _goal(result, f"SimpleTag over JaxMARL in the same run, {sizes} worlds", 10.0, "ratio", least, note)


def number(value: float | None) -> str:
    """Format a number with three significant digits and an SI prefix."""
    if value is None:
        return ""
    for limit, letter in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{letter}"
    return f"{value:.3g}"


def label(row: Row) -> str:
    """Return a short label of a row."""
    words = [row.get("peer"), row.get("env"), row.get("what")]
    if "worlds" in row:
        words += [f"{row['worlds']:,} worlds", row.get("schedule"), row.get("mode")]
    return " ".join(str(word) for word in words if word)


def markdown(result: dict[str, Any]) -> str:
    """Return the report as Markdown."""
    rate = bandwidth(result)
    text = [f"# GPU report: {result['machine'].get('name', 'unknown machine')}"]
    if result["tiny"]:
        text.append("A tiny run, to try the report out: none of its figures means anything.")
    text.append(f"`{result['command']}`, {result['date']}, commit {result['commit']}.")
    text += [f"{result['problem']}."] if result.get("problem") else []
    text.append(table(("machine", ""), [(key, str(value)) for key, value in result["machine"].items()]))
    text.append(f"Memory is copied at {number(rate)}B/s (read + write)." if rate else "The bandwidth is not known.")
    goal_rows = [
        (row["goal"], number(row["value"]), row["unit"], row["target"].replace(">=", "≥"), row["verdict"], row["note"])
        for row in result.get("goals", goals(result))
    ]
    text += ["## Goals", table(("goal", "figure", "unit", "target", "", ""), goal_rows)]
    parts = [(part["title"], part["status"], f"{part['seconds']:.0f}") for part in result["parts"].values()]
    text += ["## Parts", table(("part", "", "seconds"), parts)]
    for name, part in result["parts"].items():
        if counts := rows(result, name, unit="tests"):
            text += [f"## {part['title']}", ", ".join(f"{row['value']} {row['what']}" for row in counts) + "."]
        if lines := [_throughput(result, row) for row in rows(result, name, unit="env-steps/s") if "value" in row]:
            text += [f"## {part['title']}", table(THROUGHPUT, lines)]
    figures = {
        (row["env"], row.get("what", ""), row.get("agents", "")): (number(row["value"]), row["unit"], row["note"])
        for name in result["parts"]
        for row in [*rows(result, name, mode="bytes"), *rows(result, name, unit="registers")]
        if "value" in row
    }
    if profiles := [row for row in rows(result, "profiles", unit="s") if "value" in row]:
        lines = [(row["env"], row["what"], f"{1e6 * row['value']:.3g}", row["note"]) for row in profiles]
        text += [f"## {result['parts']['profiles']['title']}", table(("environment", "kernel", "µs", ""), lines)]
    if figures:
        lines = [(*map(str, key), *cells) for key, cells in figures.items()]
        head = ("environment", "kernel", "agents", "", "unit", "")
        text += ["## Bytes that a step of a world must move, and registers of kernels", table(head, lines)]
    return "\n\n".join([*text, *_errors(result)])


THROUGHPUT = ("environment", "agents", "worlds", "schedule", "block", "mode", "env-steps/s", "agent-steps/s")
THROUGHPUT += ("of the bandwidth", "gpu-envs over it", "")


def _throughput(result: dict[str, Any], row: Row) -> tuple[str, ...]:
    """Return a throughput, of another library with the ratio of gpu-envs to it."""
    blocks = "/".join(str(size) for size in dict.fromkeys(row.get("block_dims", {}).get("step", ())))
    ratio, part = "", share(result, row)
    if "peer" in row:
        same = {"env": row["env"], "worlds": row["worlds"], "mode": "copied"}
        native = _best([*rows(result, "goals", **same), *rows(result, "sweep", **same)])
        ratio = f"{native['value'] / row['value']:.3g}" if native else ""
    return (
        " ".join(filter(None, (row.get("peer"), row["env"]))),
        f"{row['agents']:,}",
        f"{row['worlds']:,}",
        row.get("schedule", ""),
        blocks,
        row["mode"],
        number(row["value"]),
        number(row["value"] * row["agents"]),
        "" if part is None or "peer" in row else f"{100 * part:.0f} %",
        ratio,
        row.get("note", ""),
    )


def _errors(result: dict[str, Any]) -> list[str]:
    failures = [
        (name, label(row), row["error"].replace("|", "\\|"))
        for name in result["parts"]
        for row in rows(result, name)
        if "error" in row
    ]
    text = ["## What failed", table(("part", "what", "why"), failures)] if failures else []
    for part in result["parts"].values():
        if part.get("output"):
            text += [f"## Last lines of: {part['title']}", "\n".join(("```text", *part["output"], "```"))]
    return text
