"""Recording a rollout plays it beforehand; nothing of that may stay."""

import pytest
import torch

from gpu_envs.runtime.core import Core
from trainers.algorithms import algorithm_specs
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.runner.collector import Collector
from trainers.runner.learner_group import LearnerGroup


def as_on_a_gpu(core: Core):
    """`Core.capture` as a GPU does it: two plays to warm up, the worlds and generators put back, then replays."""

    def capture(play, generators):
        saved, drawn = core.get_state(), [generator.get_state() for generator in generators]
        play()
        play()
        core.set_state(saved)
        for generator, state in zip(generators, drawn, strict=True):
            generator.set_state(state)
        return play

    return capture


SHORT = {"rollout_length": 8, "hidden_sizes": (16,)}
ENVS = {"SimpleSpread-v0": {"max_cycles": 6}}  # fewer steps than a rollout has
GRU = {**SHORT, "network": "gru"}
REPLAY = {"learning_starts": 16, "batch_size": 16, "replay_size": 1000, "hidden_sizes": (16,)}


@pytest.mark.parametrize(
    ("env_id", "algorithm", "settings", "sharing"),
    [
        ("SimpleSpread-v0", "mappo", {**GRU, "num_epochs": 1}, "group"),
        pytest.param("SimpleSpread-v0", "ppo", SHORT, "agent", marks=pytest.mark.slow),
        ("SimpleSpread-v0", "ppo", {**GRU, "num_epochs": 1}, "agent"),
        ("TicTacToe-v0", "dqn", REPLAY, "group"),
        pytest.param(
            "SimpleSpread-v0",
            "qmix",
            {**GRU, **REPLAY, "batch_size": 8},
            "group",
            marks=pytest.mark.slow,
        ),
        pytest.param("Pendulum-v1", "sac", REPLAY, "group", marks=pytest.mark.slow),
        ("SimpleSpeakerListener-v0", "maddpg", REPLAY, "group"),
    ],
)
def test_recording_leaves_no_trace(env_id, algorithm, settings, sharing):
    """Rollouts equal those by a collector that records nothing, memories and random streams included."""
    learner = algorithm_specs.find(algorithm).settings(**settings)
    config = TrainConfig(
        env_id, ENVS.get(env_id, {}), num_envs=4, total_steps=10_000, algorithm=algorithm, learner=learner,
        sharing=sharing, seed=3,
    )  # fmt: skip
    runs = []
    for recording in (False, True):
        core = make_train_core(config, config.num_envs, config.seed)
        collector = Collector(config, core, LearnerGroup(config, core))
        if recording:
            collector.uses_cuda_graph, core.capture = True, as_on_a_gpu(core)
        rollouts = []
        for iteration in range(3):
            collector.collect()
            rollouts += [seat.learner.rollout.action.clone() for seat in collector.learners.assignments.values()]
            rollouts += [seat.learner.rollout.obs.clone() for seat in collector.learners.assignments.values()]
            collector.learners.update(iteration, str)
        runs.append(rollouts)
    assert all(torch.equal(first, other) for first, other in zip(*runs, strict=True))
