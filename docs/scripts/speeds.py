"""The README's few lines of speed, out of nothing but a result file of the benchmarks."""

import json

from benchmarks.origin import ROOT
from benchmarks.standing import number
from docs.tables import table

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
"""Group, heat and words of each line: where we win and where we do not."""


def speeds() -> str:
    """Ours beside the fastest peer, medians of alternating turns."""
    groups, rows, commits = json.loads(RESULTS.read_text(encoding="utf-8")), [], set()
    for name, heat, what in SHOWN:
        group = groups["groups"][name]
        entrants = [figure["row"] for figure in group["figures"] if (figure.get("row") or {}).get("heat") == heat]
        ours = next(row for row in entrants if row["kind"] == "ours" and row["ratio"] == 1)
        best = max((row for row in entrants if row["kind"] == "peer"), key=lambda row: row["rate"])
        pair = [f"{number(row['rate'])} {ours['unit']}" for row in (ours, best)]
        rows.append((what, pair[0], f"{best['name']}: {pair[1]}", f"{number(best['ratio'])} x"))
        commits.add(group["commit"])
    machine = groups["machine"]
    where = f"{machine['cpu'].split(' (')[0]}, {machine['cores']} cores, commit {' and '.join(sorted(commits))}"
    return table(("", "gpu-envs", "the fastest peer", "ratio"), rows) + f"\n\n{where}."
