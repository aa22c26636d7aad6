"""Actors on a GPU: captured rollouts on separate streams, weights and rollouts that stay on the device."""

import pytest

from trainers.algorithms import algorithm_specs
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer

pytestmark = pytest.mark.gpu
ITERATIONS = 6


def trained(path, device, **changes):
    learner = algorithm_specs.find("appo").settings(rollout_length=8, hidden_sizes=(16,))
    config = TrainConfig(
        "SimpleTag-v0", num_envs=4, total_steps=ITERATIONS * 32, algorithm="appo", learner=learner, num_threads=1,
        device=device, eval_episodes=0, num_actors=1, **changes,
    )  # fmt: skip
    trainer = Trainer(config, path)
    trainer.run()
    return trainer


@pytest.mark.parametrize("cuda_graph", [False, True])
@pytest.mark.parametrize("actor_device", [None, "cpu"])
def test_actors_feed_a_learner_on_the_gpu(tmp_path, cuda_graph, actor_device):
    trainer = trained(tmp_path / "run", "cuda", cuda_graph=cuda_graph, actor_device=actor_device)
    accounts = trainer.collector.queue.accounts
    assert accounts.learned >= ITERATIONS - 1
    assert accounts.started == accounts.learned + accounts.dropped + accounts.lost + 1  # the last one is learned from
    assert all(tensor.isfinite().all() for tensor in trainer.assignments["agent"].learner.net.parameters())
    weights = trainer.collector.actors.published.weights["agent"]
    assert all(tensor.device.type == "cuda" for tensor in weights.values())


def test_actors_on_the_gpu_feed_a_learner_on_the_cpu(tmp_path):
    trainer = trained(tmp_path / "run", "cpu", actor_device="cuda")
    assert trainer.iteration == ITERATIONS
    assert all(tensor.device.type == "cpu" for tensor in trainer.assignments["agent"].learner.net.parameters())
