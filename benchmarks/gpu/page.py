"""Tables and targets of the report, from a result file."""

from collections.abc import Iterator
from typing import Any

from benchmarks.peers.published import WARPDRIVE

Row = dict[str, Any]


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
    return [*_simple_tag(result), _constant_agent_total(result), _jaxmarl(result)]


def _verdict(result: dict[str, Any], value: float | None, limit: float) -> str:
    if value is None:
        return "not measured"
    if "arch" not in result["machine"]:
        return "not judged: no GPU"
    return "met" if value >= limit else "not met"


def _best(entries: list[Row]) -> Row | None:
    """Return the fastest row."""
    measured = [row for row in entries if "value" in row]
    return max(measured, key=lambda row: row["value"], default=None)


def _simple_tag(result: dict[str, Any]) -> Iterator[Row]:
    """Yield the targets of SimpleTag in the largest batch: 1e9 steps per second and half of the bandwidth."""
    entries = rows(result, "goals", env="SimpleTag-v0", mode="in place")
    largest = max((row["worlds"] for row in entries), default=0)
    best = _best([row for row in entries if row["worlds"] == largest])
    value = best["value"] if best else None
    copied = _best(rows(result, "goals", env="SimpleTag-v0", mode="copied", worlds=largest))
    note = f"{largest:,} worlds, actions in place" if entries else ""
    note += f"; copied in: {number(copied['value'])}" if copied else ""
    yield {
        "goal": "SimpleTag at 2^20 worlds",
        "target": ">= 1e9",
        "unit": "env-steps/s",
        "value": value,
        "verdict": _verdict(result, value if largest >= 1 << 20 else None, 1e9),
        "note": note,
    }
    part = share(result, best) if best else None
    yield {
        "goal": "SimpleTag's share of the bandwidth bound",
        "target": ">= 0.5",
        "unit": "of measured copy",
        "value": part,
        "verdict": _verdict(result, part if largest >= 1 << 20 else None, 0.5),
        "note": note.partition(";")[0],
    }


def _constant_agent_total(result: dict[str, Any]) -> Row:
    """Return the target of ten times WarpDrive, with the limit of the bandwidth."""
    best = _best(rows(result, "goals", env="TagContinuous-v0", mode="in place"))
    value, limit, note = (best["value"] if best else None), 10 * WARPDRIVE, ""
    if best:
        note = f"{best['agents']:,} agents, {best['worlds']:,} worlds, 10 neighbors seen"
        if part := share(result, best):
            bound = best["value"] / part
            note += f"; the bandwidth allows {number(bound)}" + (", so it is out of reach" if bound < limit else "")
    judged = value if best and best["agents"] == 1000 else None
    return {
        "goal": f"1,000-agent Tag at 2,000 worlds, 10 x WarpDrive's published {number(WARPDRIVE)}",
        "target": f">= {limit:.1e}".replace("e+0", "e"),
        "unit": "env-steps/s",
        "value": value,
        "verdict": _verdict(result, judged, limit),
        "note": note,
    }


def _jaxmarl(result: dict[str, Any]) -> Row:
    """Return the target of ten times JaxMARL at the batch size where JaxMARL is fastest."""
    theirs, ratio = _best(rows(result, "jaxmarl", peer="JaxMARL")), None
    note = result["parts"].get("jaxmarl", {}).get("status", "not run")
    if theirs:
        mine = _best(rows(result, "goals", env="SimpleTag-v0", mode="copied", worlds=theirs["worlds"]))
        note = f"{theirs['worlds']:,} worlds, where JaxMARL is fastest: {number(theirs['value'])} env-steps/s"
        if mine:
            ratio = mine["value"] / theirs["value"]
            note += f"; gpu-envs, actions copied in: {number(mine['value'])}"
    return {
        "goal": "SimpleTag over JaxMARL in the same run",
        "target": ">= 10",
        "unit": "ratio",
        "value": ratio,
        "verdict": _verdict(result, ratio, 10.0),
        "note": note,
    }


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


def table(head: list[str], lines: list[list[str]]) -> list[str]:
    """Return a Markdown table as lines."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines)] + [""]


def markdown(result: dict[str, Any]) -> str:
    """Return the report as Markdown."""
    name = result["machine"].get("name", "unknown machine")
    text = [f"# GPU report: {name}", ""]
    if result["tiny"]:
        text += ["A tiny run, to try the report out: none of its figures means anything.", ""]
    text += [f"`{result['command']}`, {result['date']}, commit {result['commit']}.", ""]
    text += [f"{result['problem']}.", ""] if result.get("problem") else []
    text += table(["machine", ""], [[key, str(value)] for key, value in result["machine"].items()])
    rate = bandwidth(result)
    text += [f"Memory is copied at {number(rate)}B/s (read + write)." if rate else "The bandwidth is not known.", ""]
    text += ["## Goals", ""]
    judged = [
        [row["goal"], number(row["value"]), row["unit"], row["target"].replace(">=", "≥"), row["verdict"], row["note"]]
        for row in result.get("goals", goals(result))
    ]
    text += table(["goal", "figure", "unit", "target", "", ""], judged)
    text += ["## Parts", ""]
    text += table(
        ["part", "", "seconds"],
        [[part["title"], part["status"], f"{part['seconds']:.0f}"] for part in result["parts"].values()],
    )
    text += _tests(result)
    for part, title in (("goals", "Headline"), ("many-agents", "Many agents of TagContinuous")):
        text += _throughputs(result, part, title)
    text += _sweep(result)
    text += _peers(result)
    text += _throughputs(result, "training", "Training, learning included")
    text += _bytes(result)
    registers = rows(result, "goals", unit="registers")
    lines = [[row["env"], row["what"], number(row["value"]), row["note"]] for row in registers if "value" in row]
    if lines:
        text += ["## Kernels of a step", "", *table(["environment", "kernel", "registers a thread", ""], lines)]
    return "\n".join(text + _errors(result))


def _tests(result: dict[str, Any]) -> list[str]:
    text = []
    for part, title in (("smoke", "Smoke tests"), ("tests", "Tests")):
        if counts := rows(result, part, unit="tests"):
            text += [f"## {title}", "", ", ".join(f"{row['value']} {row['what']}" for row in counts) + ".", ""]
    return text


def _throughputs(result: dict[str, Any], part: str, title: str) -> list[str]:
    """Return a table with one line per row."""
    entries = rows(result, part, unit="env-steps/s")
    lines = []
    for row in (row for row in entries if "value" in row):
        blocks = "/".join(str(size) for size in dict.fromkeys(row.get("block_dims", {}).get("step", ())))
        cells = [row["env"], f"{row['agents']:,}", f"{row['worlds']:,}", row.get("schedule", ""), blocks]
        cells.append(row["mode"])
        rates = [number(row["value"]), number(row["value"] * row["agents"])]
        lines.append([*cells, *rates, _percent(share(result, row)), row.get("note", "")])
    head = ["environment", "agents", "worlds", "schedule", "block", "mode", "env-steps/s", "agent-steps/s"]
    return [f"## {title}", "", *table([*head, "of the bandwidth", ""], lines)] if lines else []


def _sweep(result: dict[str, Any]) -> list[str]:
    """Return a table per environment: worlds by schedules."""
    text = []
    entries = [row for row in rows(result, "sweep", unit="env-steps/s") if "value" in row]
    for env_id in dict.fromkeys(row["env"] for row in entries):
        mine = [row for row in entries if row["env"] == env_id]
        lines = []
        for worlds in sorted({row["worlds"] for row in mine}):
            cells, best = [f"{worlds:,}"], _best([row for row in mine if row["worlds"] == worlds])
            for schedule in ("fused", "phased"):
                for mode in ("copied", "eager"):
                    setting = {"worlds": worlds, "schedule": schedule, "mode": mode}
                    fits = [row for row in mine if all(row[key] == value for key, value in setting.items())]
                    cells.append(number(fits[0]["value"]) if fits else "")
            lines.append([*cells, _percent(share(result, best)) if best else ""])
        head = [f"{schedule}, {label}" for schedule in ("fused", "phased") for label in ("captured", "eager")]
        text += [f"## {env_id}, env-steps/s", "", *table(["worlds", *head, "best, of the bandwidth"], lines)]
    return text


def _peers(result: dict[str, Any]) -> list[str]:
    lines = []
    for part in ("jaxmarl", "gymnax", "vmas"):
        for row in (row for row in rows(result, part, unit="env-steps/s") if "value" in row):
            same = {"env": row["env"], "worlds": row["worlds"], "mode": "copied"}
            mine = _best([*rows(result, "goals", **same), *rows(result, "sweep", **same)])
            times = f"{mine['value'] / row['value']:.3g}" if mine else ""
            cells = [row["peer"], row["env"], f"{row['worlds']:,}", number(row["value"])]
            lines.append([*cells, number(mine["value"]) if mine else "", times])
    head = ["peer", "environment", "worlds", "its env-steps/s", "gpu-envs, copied", "ratio"]
    return ["## Peers", "", *table(head, lines)] if lines else []


def _bytes(result: dict[str, Any]) -> list[str]:
    """Return the bytes of the roofline model."""
    lines = {}
    for part in result["parts"]:
        for row in (row for row in rows(result, part, mode="bytes") if "value" in row):
            lines[row["env"], row["agents"]] = [row["env"], f"{row['agents']:,}", f"{row['value']:g}", row["note"]]
    head = ["environment", "agents", "bytes", "of which"]
    return ["## Bytes that a step of a world must move", "", *table(head, list(lines.values()))] if lines else []


def _errors(result: dict[str, Any]) -> list[str]:
    failures = [
        [name, label(row), row["error"]] for name in result["parts"] for row in rows(result, name) if "error" in row
    ]
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in failures]
    text = ["## What failed", "", *table(["part", "what", "why"], escaped)] if failures else []
    for part in result["parts"].values():
        if part.get("output"):
            text += [f"## Last lines of: {part['title']}", "", "```text", *part["output"], "```", ""]
    return text


def _percent(part: float | None) -> str:
    return "" if part is None else f"{100 * part:.0f} %"
