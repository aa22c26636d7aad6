"""Updates that are captured as CUDA graphs: they equal plain ones, and the host waits only when it writes a log."""

import pytest

from gpu_envs.runtime import cuda_graph
from pretended_gpu.runs import DEVICES, FEW_STEPS, SECOND, assert_equal_runs, configuration, train
from trainers.algorithms.registry import ALGORITHMS
from trainers.base.captured_updates import CapturedUpdates
from trainers.runner.trainer import Trainer

PENDULUM = ("ddpg", "td3")
MORE = [
    ("TagContinuous-v0", "ppo", {"target_kl": 1e-3, "num_epochs": 3}),
    ("TagContinuous-v0", "ppo", {"network": "gru"}),
    ("SimpleSpread-v0", "ppo", {"critic_input": "state"}),
    ("LeducPoker-v0", "ppo", {}),
    ("Pendulum-v1", "ppo", {"clip_range_vf": 0.2}),
    ("TicTacToe-v0", "a2c", {"optimizer": "rmsprop"}),
    ("CartPole-v1", "dqn", {"prioritized": True, "n_step": 3, "target_every": 3}),
    ("SimpleSpread-v0", "qmix", {"network": "gru", "window": 4, "target_every": 2}),
    ("Pendulum-v1", "sac", {"learn_temperature": False}),
]
EVERY = [("Pendulum-v1" if name in PENDULUM else "SimpleTag-v0", name, {}) for name in ALGORITHMS]
QUICK = [("CartPole-v1", "ppo", FEW_STEPS), ("Pendulum-v1", "td3", {})]
BOTH = ("SimpleTag-v0", "ppo", {})
"""The case that is compared on both GPUs."""
CASES = [
    pytest.param(case, marks=() if case in QUICK else pytest.mark.slow, id="-".join((case[0], case[1], *case[2])))
    for case in [QUICK[0], *EVERY, *MORE]
]


def trainer_of(case, folder, device="cuda:0"):
    env_id, algorithm, learner = case
    return Trainer(configuration(env_id, algorithm, device, learner, eval_episodes=0), folder)


@pytest.mark.parametrize("case", CASES)
def test_captured_update_equals_the_plain_one(case, gpu, tmp_path, monkeypatch):
    env_id, algorithm, learner = case
    captured = [
        train(configuration(env_id, algorithm, device, learner, eval_episodes=0), tmp_path / device)
        for device in (DEVICES if case == BOTH else SECOND)
    ]
    monkeypatch.setattr(CapturedUpdates, "captured", lambda self, name, update: update)
    plain = train(configuration(env_id, algorithm, "cuda:0", learner, eval_episodes=0), tmp_path / "plain")
    for run in captured:
        assert_equal_runs(plain, run)


@pytest.mark.parametrize("case", CASES)
def test_host_does_not_wait_between_two_logs(case, gpu, tmp_path):
    trainer = trainer_of(case, tmp_path)
    for _ in range(3):
        trainer.iterate()
    learners = [assignment.learner for assignment in trainer.assignments.values()]
    with gpu.observe() as events:
        trainer.collector.collect()
    assert not events.synchronizations
    assert len(events.graph_launches) == 1
    for learner in learners:
        steps = getattr(
            learner.config, "updates", 1
        )  # gradient steps of a replay learner; else one graph of all epochs
        with gpu.observe() as events:
            assert learner.update()
        assert not events.synchronizations
        assert len(events.graph_launches) == steps
    with gpu.observe() as events:
        trainer.learners.update(5, str)
    assert events.synchronizations  # metrics are read


@pytest.fixture
def captures(monkeypatch):
    """Names of the captured functions, in order."""
    names = []
    capture = CapturedUpdates._capture

    def counted(self, update):
        names.append(update)
        return capture(self, update)

    monkeypatch.setattr(CapturedUpdates, "_capture", counted)
    return names


@pytest.mark.slow
def test_graph_stays_after_a_load_and_is_captured_again_after_a_move(gpu, captures, tmp_path):
    case = ("CartPole-v1", "ppo", {})
    trainer, other = trainer_of(case, tmp_path / "one"), trainer_of(case, tmp_path / "other")
    for _ in range(2):
        trainer.iterate()
        other.iterate()
    assert len(captures) == 2
    state = {name: value.clone() if hasattr(value, "clone") else value for name, value in trainer.state_dict().items()}
    trainer.iterate()
    trainer.learners.load_state_dict(state)
    trainer.collector.load_state_dict(state)
    trainer.iterate()
    other.iterate()
    assert len(captures) == 2
    assert trainer.row["agent/policy_loss"] == other.row["agent/policy_loss"]
    learner = trainer.assignments["agent"].learner
    for moments in learner.optimizer.state.values():
        moments["exp_avg"] = moments["exp_avg"].clone()
    trainer.iterate()
    other.iterate()
    assert len(captures) == 3
    assert trainer.row["agent/policy_loss"] == other.row["agent/policy_loss"]


def test_failed_update_leaves_the_learner_unchanged(gpu, tmp_path, monkeypatch):
    trainer = trainer_of(QUICK[0], tmp_path)
    trainer.collector.collect()
    learner = trainer.assignments["agent"].learner
    state = {name: value.clone() for name, value in learner.state_dict().items() if hasattr(value, "clone")}
    learn = learner._learn

    def fails():
        learn()
        raise RuntimeError("planted")

    monkeypatch.setattr(learner, "_learn", fails)
    with pytest.raises(RuntimeError, match="planted"):
        learner.update()
    after = learner.state_dict()
    assert all(after[name].equal(value) for name, value in state.items())
    assert cuda_graph.WARM_UPS > 0
