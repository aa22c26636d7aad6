"""Trainings on the pretended GPU, with captured rollouts and updates, equal those on the CPU bit for bit.

The host waits only when it writes a log.
"""

import gc
import weakref

import pytest
import torch

from gpu_envs.runtime import cuda_graph
from pretended_gpu.runs import (
    DEVICES,
    FEW_STEPS,
    SECOND,
    assert_equal_runs,
    assert_equal_states,
    configuration,
    on_host,
    train,
)
from trainers.algorithms.algorithm_specs import ALGORITHMS
from trainers.algorithms.on_policy import kernel_engine
from trainers.base.captured_updates import CapturedUpdates
from trainers.base.phase_timer import PhaseTimer
from trainers.runner.trainer import Trainer

LEARNERS = ("ppo", "appo", "mmd", "a2c", "impala", "pg")
ON_POLICY = (*LEARNERS, "ippo", "mappo", "happo", "hatrpo", "mat")  # the first two of these are PPO with other defaults
GRU, STATE = {"network": "gru"}, {"critic_input": "state"}


def cnn(*image):
    """Return the settings of a small convolutional network."""
    return {"network": "cnn", "image": image, "conv_filters": (4,)}


FURTHER = [
    ("CartPole-v1", "dqn", {"prioritized": True, "n_step": 3, "dueling": True, "double": True, "target_every": 3}),
    ("SimpleSpread-v0", "qmix", GRU | {"window": 4, "target_every": 2}),
    ("Pendulum-v1", "sac", {"learn_temperature": False}),
    ("Pendulum-v1", "ppo", {"clip_range_vf": 0.2}),
    ("SimpleTag-v0", "ppo", {"target_kl": 0.01, "normalize_obs": True, "entropy_coef_final": 0.0}),
    ("TagContinuous-v0", "ppo", {"target_kl": 1e-3, "num_epochs": 3}),
]
"""Further settings of updates."""
CASES = [
    # every on-policy algorithm, and every learner with every network and every input of the critic that it accepts
    *(("SimpleTag-v0", name, {}) for name in ON_POLICY),
    *(("SimpleTag-v0", name, GRU) for name in LEARNERS),
    *(("SimpleTag-v0", name, GRU) for name in ("happo", "hatrpo")),
    *((env_id, "mat", {}) for env_id in ("TagContinuous-v0", "SimpleSpread-v0", "Pendulum-v1")),
    *(("SimpleTag-v0", name, STATE) for name in ("ppo", "appo", "a2c")),
    ("SimpleTag-v0", "ppo", STATE | GRU),
    *(("TicTacToe-v0", name, cnn(2, 3, 3)) for name in LEARNERS),
    # kinds of environments: one agent, truncation, agents that leave, turns, cards, continuous actions
    *(("CartPole-v1", name, {}) for name in ("ppo", "a2c", "dqn")),
    *(("SimpleTag-v0", name, {"network": "gru", "window": 4}) for name in ("dqn", "sac")),
    *(("Pendulum-v1", name, {"network": "gru", "window": 4}) for name in ("td3", "sac")),
    ("LeducPoker-v0", "iql", {"network": "gru", "window": 4}),
    *(("Pendulum-v1", name, {}) for name in ("ppo", "a2c", "sac")),
    *(("TagContinuous-v0", name, {}) for name in ("ppo", "mappo", "sac")),
    ("TagContinuous-v0", "ppo", GRU),
    *(("TicTacToe-v0", name, {}) for name in ("ppo", "mappo", "dqn")),
    ("KuhnPoker-v0", "nfsp", {"anticipatory_param": 0.5, "reservoir_size": 100}),
    *(("LeducPoker-v0", name, {}) for name in LEARNERS),
    ("LeducPoker-v0", "ppo", GRU),
    ("SimpleSpeakerListener-v0", "ppo", {}),
    ("SimpleSpeakerListener-v0", "maddpg", {}),
    # every algorithm with a replay buffer
    *(("SimpleTag-v0", name, {}) for name in ("dqn", "iql", "nfsp", "vdn", "qmix", "qplex")),
    *(("SimpleTag-v0", name, {}) for name in ("maddpg", "matd3", "sac", "masac")),
    *(("SimpleSpread-v0", name, {"network": "gru", "window": 4}) for name in ("vdn", "qmix", "qplex")),
    *(("Pendulum-v1", name, {}) for name in ("td3", "ddpg")),
    *(("Pendulum-v1", name, cnn(1, 1, 3)) for name in ("td3", "ddpg", "sac")),
    *(("SimpleSpread-v0", name, cnn(2, 3, 3)) for name in ("dqn", "qmix", "vdn", "maddpg", "matd3", "masac")),
    *FURTHER,
]
FIRST = [next(case for case in CASES if case[1] == name) for name in ALGORITHMS]


def name_of(case):
    """Return a case in the name of its test."""
    env_id, algorithm, learner = case
    return "-".join([env_id, algorithm, *(f"{name}={value}" for name, value in learner.items())])


PPO = ("CartPole-v1", "ppo", FEW_STEPS)
QUICK = (PPO, ("Pendulum-v1", "td3", {}))


def parameters(cases):
    return [pytest.param(case, marks=() if case in QUICK else pytest.mark.slow, id=name_of(case)) for case in cases]


@pytest.mark.parametrize("case", parameters((PPO, *CASES)))
def test_training_equals_the_cpu(case, gpu, tmp_path):
    """Rollouts and updates are captured; evaluations and checkpoints are part of the run."""
    env_id, algorithm, learner = case
    expected = train(configuration(env_id, algorithm, "cpu", learner), tmp_path / "cpu")
    assert not gpu.synchronizations
    for device in DEVICES if case == CASES[0] else SECOND:
        with gpu.observe() as events:
            actual = train(configuration(env_id, algorithm, device, learner), tmp_path / device)
        assert_equal_runs(expected, actual)
        assert sum("collector.py" in launch.location for launch in events.graph_launches) == 4
        assert gpu.current_device == 0


@pytest.mark.slow
@pytest.mark.parametrize("case", FIRST, ids=name_of)
def test_rollout_without_a_graph_equals_the_cpu_and_does_not_wait(case, gpu, tmp_path):
    env_id, name, learner = case
    trainers = [
        Trainer(configuration(env_id, name, device, learner, cuda_graph=False), tmp_path / device)
        for device in ("cpu", *(DEVICES if name == "ppo" else SECOND))
    ]
    for _ in range(3):
        for trainer in trainers:
            with gpu.observe() as events:
                trainer.collector._rollout()
            assert not events.synchronizations
            assert not events.graph_launches
            trainer.core.raise_pending_errors()
            trainer.learners.update(1, str)
    expected, *actual = (on_host(trainer.state_dict()) for trainer in trainers)
    for state in actual:
        assert_equal_states(expected, state)
    for trainer in trainers:
        trainer.log.close()


# ---------------------------------------------------------------- captured updates


def trainer_of(case, folder, device="cuda:0", engine="torch"):
    env_id, algorithm, learner = case
    return Trainer(configuration(env_id, algorithm, device, learner, eval_episodes=0, engine=engine), folder)


@pytest.mark.parametrize("case", parameters((PPO, *FIRST, *FURTHER)))
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
        steps = getattr(learner.config, "updates", 1)  # of a replay learner; else one graph of all epochs
        with gpu.observe() as events:
            assert learner.update()
        assert not events.synchronizations
        assert len(events.graph_launches) == steps
    with gpu.observe() as events:
        trainer.learners.update(5, str)
    assert events.synchronizations  # metrics are read


@pytest.mark.parametrize(
    ("case", "engine"),
    [
        *(pytest.param(*p.values, "torch", marks=p.marks, id=p.id) for p in parameters((PPO, *FIRST))),
        *(pytest.param(PPO, engine, marks=pytest.mark.slow, id=f"ppo-{engine}") for engine in ("kernel", "auto")),
        pytest.param(("CartPole-v1", "dqn", {}), "kernel", marks=pytest.mark.slow, id="dqn-kernel"),
    ],
)
def test_dropped_training_frees_its_graphs_and_environments_at_once(case, engine, gpu, tmp_path, monkeypatch):
    """Memory of a GPU that waits for Python's garbage collection is missing in the next training."""
    monkeypatch.setattr(kernel_engine, "MIN_TRAINING_OPERATIONS", 0)
    trainer = trainer_of(case, tmp_path, engine=engine)
    assert (trainer.collector.kernels is None) == (engine == "torch")
    for _ in range(2):
        trainer.iterate()
    trainer.log.close()
    graphs = [weakref.ref(trainer.collector._replay)] + [
        weakref.ref(update.graph)
        for assignment in trainer.assignments.values()
        for update in assignment.learner.updates._recorded.values()
    ]
    assert len(graphs) > len(trainer.assignments)
    core = weakref.ref(trainer.core)
    gc.collect()
    gc.disable()
    try:
        del trainer
        assert core() is None
        assert not any(graph() for graph in graphs)
    finally:
        gc.enable()


def test_marks_of_a_graph_that_was_captured_again_do_not_count(gpu):
    timer = PhaseTimer(torch.device("cuda", 0))
    for _ in range(3):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
            timer.start()
            timer.mark("inference")
            timer.mark("env_step")
        graph.replay()
        timer.replayed()
        assert len(timer.events) == 2
        timer.events.clear()


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
    trainer = trainer_of(PPO, tmp_path)
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
