"""Trajectories hold all that the learner needs: learning from them equals learning from own rollouts."""

import dataclasses

import pytest
import torch

from trainers.algorithms import algorithm_specs
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.runner.actors.rollout_actor import RolloutActor
from trainers.runner.collector import Collector
from trainers.runner.learner_group import LearnerGroup

TAG = {"num_taggers": 2, "num_runners": 3, "grid_length": 1.0, "episode_length": 10}
SMALL = {"rollout_length": 8, "hidden_sizes": (16,)}
CASES = {
    "mlp": ("CartPole-v1", {}, "appo", SMALL),
    "gru": ("SimpleSpread-v0", {"max_cycles": 5}, "appo", SMALL | {"network": "gru", "num_minibatches": 1}),
    "state": ("SimpleSpread-v0", {"max_cycles": 5}, "impala",
              SMALL | {"critic_input": "state"}),
    "deaths": ("TagContinuous-v0", TAG, "impala", SMALL),
    "gru of two sides": ("TagContinuous-v0", TAG, "impala", SMALL | {"network": "gru"}),
    "turns": ("TicTacToe-v0", {}, "appo", SMALL),
    "cnn": ("TicTacToe-v0", {}, "impala",
            SMALL | {"network": "cnn", "image": (2, 3, 3), "conv_filters": (4,)}),
    "box": ("Pendulum-v1", {"max_episode_steps": 6}, "appo", SMALL | {"normalize_obs": True}),
}  # fmt: skip


def config(env_id, env, algorithm, settings, **changes):
    learner = algorithm_specs.find(algorithm).settings(**settings)
    return TrainConfig(
        env_id, env, num_envs=6, total_steps=10_000, algorithm=algorithm, learner=learner, num_threads=1, **changes
    )


def weights_of(learners):
    return {name: assignment.learner.net.state_dict() for name, assignment in learners.assignments.items()}


def generators_of(learners):
    return [assignment.learner.generator for assignment in learners.assignments.values()]


def copy_generators(source, target):
    for first, other in zip(generators_of(source), generators_of(target), strict=True):
        other.set_state(first.get_state())


@pytest.mark.parametrize("case", CASES)
def test_learning_from_trajectories_equals_learning_from_own_rollouts(case):
    base = config(*CASES[case])
    actor = RolloutActor(base, number=4)
    same = dataclasses.replace(base, seed=actor.config.seed)
    core = make_train_core(same, same.num_envs, same.seed)
    learners, other = LearnerGroup(same, core), LearnerGroup(same, make_train_core(same, same.num_envs, same.seed))
    collector = Collector(same, core, learners)
    initial = {name: {key: value.clone() for key, value in net.items()} for name, net in weights_of(learners).items()}
    for number in range(3):
        copy_generators(learners, actor.learners)
        trajectory = actor.sample(number, number, weights_of(other))
        collector.collect()
        assert trajectory.steps == 6 * 8
        assert torch.equal(trajectory.episodes["over"], collector.episodes.over)
        copy_generators(learners, other)
        for name, assignment in other.assignments.items():
            assignment.learner.load_rollout(trajectory.rollouts[name])
        row = learners.update(number + 1, str)
        assert other.update(number + 1, str) == row
        for name, net in weights_of(learners).items():
            for key, tensor in net.items():
                assert torch.equal(tensor, weights_of(other)[name][key]), (number, name, key)
    moved = [
        (weights_of(learners)[name][key] - value).abs().max()
        for name in initial
        for key, value in initial[name].items()
    ]
    assert max(moved) > 1e-4


def test_trajectory_is_not_changed_by_later_rollouts():
    actor = RolloutActor(config(*CASES["gru"]), number=0)
    weights = weights_of(actor.learners)
    first = actor.sample(0, 0, weights)
    copies = {name: tensor.clone() for rollout in first.rollouts.values() for name, tensor in rollout.items()}
    second = actor.sample(1, 0, weights)
    for rollout, later in zip(first.rollouts.values(), second.rollouts.values(), strict=True):
        assert all(torch.equal(copies[name], tensor) for name, tensor in rollout.items())
        assert not torch.equal(rollout["all_obs"], later["all_obs"])
        assert torch.equal(rollout["all_obs"][-1], later["all_obs"][0])  # the worlds go on
        assert later["hidden_actor"].abs().max() > 0


def test_actors_have_different_worlds_and_actions():
    rollouts = []
    for number in (0, 1, 0):
        actor = RolloutActor(config(*CASES["mlp"]), number)
        rollouts.append(next(iter(actor.sample(0, 0, weights_of(actor.learners)).rollouts.values())))
    assert not torch.equal(rollouts[0]["all_obs"][0], rollouts[1]["all_obs"][0])
    assert torch.equal(rollouts[0]["action"], rollouts[2]["action"])
