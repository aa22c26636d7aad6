"""Train with actors on its own Ray cluster, from the newest checkpoint if there is one: `... RUN ITERATION`.

After that iteration the process waits until it is killed, so that it cannot end first; "never": it trains to the end.
"""

import sys
import time
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
    trainer = Trainer(config(60, num_actors=2), run, resume, actors=ray_actors())
    iterate = trainer.iterate
    trainer.iterate = lambda: time.sleep(600) if str(trainer.iteration) == sys.argv[2] else iterate()
    trainer.run()
