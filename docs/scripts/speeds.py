"""The table of speeds in the README, from the result files of the benchmarks."""

from benchmarks.hardware.provenance import ROOT
from benchmarks.pages import sources
from benchmarks.pages.report import read
from benchmarks.pages.standing import number
from benchmarks.throughput.timing import QUIET
from docs.scripts.tables import table

RESULTS = ROOT / "benchmarks" / "results" / "intel-r-xeon-r-processor-family-6-model-207-2-cores.json"
SHOWN = (
    ("peers-simple-tag", "16,384 worlds", "SimpleTag-v0, 16,384 worlds"),
    ("peers-simple-tag", "1 world", "SimpleTag-v0, 1 world"),
    ("peers-simple-spread", "16,384 worlds", "SimpleSpread-v0, 16,384 worlds"),
    ("peers-tag-continuous", "105 agents, 1,024 worlds", "TagContinuous-v0, 105 agents, 1,024 worlds"),
    ("peers-cartpole", "4,096 worlds", "CartPole-v1, 4,096 worlds"),
    ("peers-cartpole", "1 world", "CartPole-v1, 1 world"),
    ("peers-classic", "Acrobot-v1, 4,096 worlds", "Acrobot-v1, 4,096 worlds"),
    ("peers-games", "LeducPoker-v0, observed", "random games of LeducPoker-v0, observed"),
    ("peers-training", "CartPole-v1, 8 worlds, 1 thread", "PPO on CartPole-v1, 8 worlds, 1 thread"),
    ("peers-training", "SimpleSpread-v0, 16 worlds, 1 thread", "PPO on SimpleSpread-v0, 16 worlds, 1 thread"),
)
"""Group, round and label of each line."""


def speeds() -> str:
    """Return the table: gpu-envs compared with the fastest other library, medians of alternating samples."""
    result, rows = read(RESULTS), []
    commits: dict[str, set[str]] = {}
    shown = {name: result["groups"][name] for name, *_ in SHOWN}
    for name, round_title, what in SHOWN:
        group, machine = shown[name], result["machine"]
        every = [figure.get("row") or {} for figure in group["figures"]]
        contenders = [row for row in every if row.get("round") == round_title]
        first = next(row for row in contenders if row["kind"] == "gpu_envs" and row["ratio"] == 1)
        best = max((row for row in contenders if row["kind"] == "peer"), key=lambda row: row["rate"])
        pair = [f"{number(row['rate'])} {first['unit']}" for row in (first, best)]
        remarks = [sources.elsewhere(group, machine), "the machine was busy" if first["others"] > QUIET else ""]
        remark = ", ".join(filter(None, remarks))
        label = f"{what} ({remark})" if remark else what
        rows.append((label, pair[0], f"{best['name']}: {pair[1]}", f"{number(best['ratio'])} x"))
        there = group.get("machine", machine)
        where = f"{there['cpu'].split(' (')[0]}, {there['cores']} cores"
        commits.setdefault(where, set()).add(group["commit"])
    machines = [f"{where}, commit {' and '.join(sorted(commits[where]))}." for where in commits]
    below = " ".join(filter(None, [*machines, sources.unmeasured(shown)]))
    return table(("", "gpu-envs", "fastest other library", "ratio"), rows) + f"\n\n{below}"
