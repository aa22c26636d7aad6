"""Train with actors on a Ray cluster of its own, from the newest checkpoint if there is one: `... RUN`."""

import sys
from pathlib import Path

from test_ray_actors import config

from trainers.cluster.connect import connect
from trainers.cluster.ray_actors import ray_actors
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint

if __name__ == "__main__":
    run = Path(sys.argv[1])
    connect("the learner", "local", num_cpus=2, object_store_memory=100_000_000)
    resume = checkpoint.load(run) if checkpoint.every(run / "checkpoints") else None
    Trainer(config(60, num_actors=2), run, resume, actors=ray_actors()).run()
