"""The table of speeds in the README, from a result file of the benchmarks."""

import json

from benchmarks.hardware.provenance import ROOT
from benchmarks.pages.standing import number
from docs.scripts.tables import table

RESULTS = ROOT / "benchmarks" / "results" / "intel-r-xeon-r-processor-family-6-model-207-2-cores.json"
SHOWN = (
    ("peers-simple-tag", "16,384 worlds", "SimpleTag-v0, 16,384 worlds"),
    ("peers-simple-tag", "1 world", "SimpleTag-v0, 1 world"),
    ("peers-simple-spread", "16,384 worlds", "SimpleSpread-v0, 16,384 worlds"),
    ("peers-tag-continuous", "105 agents, 1,024 worlds", "TagContinuous-v0, 105 agents, 1,024 worlds"),
    ("peers-cartpole", "4,096 worlds", "CartPole-v1, 4,096 worlds"),
    ("peers-cartpole", "1 world", "CartPole-v1, 1 world"),
    ("peers-games", "LeducPoker-v0, observed", "random games of LeducPoker-v0, observed"),
    ("peers-training", "CartPole-v1, 8 worlds, 1 thread", "PPO on CartPole-v1, 8 worlds, 1 thread"),
    ("peers-training", "SimpleSpread-v0, 16 worlds, 1 thread", "PPO on SimpleSpread-v0, 16 worlds, 1 thread"),
)
"""Group, round and label of each line."""


def speeds() -> str:
    """Return the table: gpu-envs compared with the fastest other library, medians of alternating samples."""
    groups, rows, commits = json.loads(RESULTS.read_text(encoding="utf-8")), [], set()
    for name, round_title, what in SHOWN:
        group = groups["groups"][name]
        every = [figure.get("row") or {} for figure in group["figures"]]
        contenders = [row for row in every if row.get("round") == round_title]
        first = next(row for row in contenders if row["kind"] == "gpu_envs" and row["ratio"] == 1)
        best = max((row for row in contenders if row["kind"] == "peer"), key=lambda row: row["rate"])
        pair = [f"{number(row['rate'])} {first['unit']}" for row in (first, best)]
        rows.append((what, pair[0], f"{best['name']}: {pair[1]}", f"{number(best['ratio'])} x"))
        commits.add(group["commit"])
    machine = groups["machine"]
    where = f"{machine['cpu'].split(' (')[0]}, {machine['cores']} cores, commit {' and '.join(sorted(commits))}"
    return table(("", "gpu-envs", "fastest other library", "ratio"), rows) + f"\n\n{where}."
