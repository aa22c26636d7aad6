"""Short trainings on environments of other libraries."""

import json
from pathlib import Path

from gpu_envs.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"


def assert_training_helps(env_id, options, run_dir):
    """Train, and assert that the return of the first role is above that of random policies by both half widths."""
    words = ["--eval-episodes=16", "--seed=0", "--no-video", "--device=cpu", f"--run-dir={run_dir}"]
    assert main(["train", env_id, *options, *words]) == 0
    matchups = json.loads((run_dir / "cross_play.json").read_text())["matchups"]
    role = next(iter(matchups[0]["returns"]))
    random, trained = (
        next(matchup["returns"][role] for matchup in matchups if matchup["policies"] == players)
        for players in (dict.fromkeys(matchups[0]["policies"], "random"), matchups[0]["policies"] | {role: "trained"})
    )
    assert trained["mean"] - trained["half"] > random["mean"] + random["half"]
