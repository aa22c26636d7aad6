"""What "auto" does on a GPU: rollouts in kernels, and gradients by PyTorch in CUDA graphs."""

import pytest
import torch

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.rollout.packed_weights import MAX_THREAD_WIDTH
from pretended_gpu.runs import FEW_STEPS, assert_equal_states, configuration, on_host, same
from trainers.algorithms.on_policy import kernel_engine, ppo
from trainers.algorithms.on_policy.torch_engine import TorchEngine
from trainers.cli.train_seeds import engine_text
from trainers.runner.actors.rollout_actor import RolloutActor
from trainers.runner.trainer import Trainer

NAME = "rollouts kernel, gradients torch"
CASES = [
    ("CartPole-v1", "ppo", FEW_STEPS),
    ("SimpleTag-v0", "ppo", FEW_STEPS | {"target_kl": 0.01}),
    ("Pendulum-v1", "a2c", {}),
    ("TicTacToe-v0", "ppo", FEW_STEPS),
    ("TagContinuous-v0", "ppo", FEW_STEPS),
    ("CartPole-v1", "appo", FEW_STEPS),
    ("SimpleTag-v0", "impala", {}),
    ("CartPole-v1", "pg", {}),
]
ALL = [pytest.param(case, marks=() if case == CASES[0] else pytest.mark.slow, id="-".join(case[:2])) for case in CASES]


@pytest.fixture(autouse=True)
def long_trainings(monkeypatch):
    """Let the small trainings of this file be long enough for kernels."""
    monkeypatch.setattr(kernel_engine, "MIN_TRAINING_OPERATIONS", 0)


def trainer_of(case, folder, engine="auto", **settings):
    env_id, algorithm, learner = case
    return Trainer(configuration(env_id, algorithm, "cuda:0", learner, engine=engine, **settings), folder)


def learners_of(trainer):
    return {name: assignment.learner for name, assignment in trainer.assignments.items()}


@pytest.mark.parametrize("case", ALL)
def test_training_equals_that_of_pytorch_on_the_same_rollouts(case, gpu, tmp_path):
    """Bit for bit. The log-probabilities that kernels store are PyTorch's except for rounding."""
    hybrid, torch_only = (trainer_of(case, tmp_path / engine, engine) for engine in ("auto", "torch"))
    assert set(hybrid.engines.values()) == {NAME}
    assert engine_text(hybrid.engines, hybrid.reasons_for_torch).startswith(f"{NAME} (")
    for number in range(3):
        with gpu.observe() as events:
            hybrid.collector.collect()
        hybrid.collector.raise_pending_errors()
        if number:
            assert not events.synchronizations
            assert [launch for launch in events.graph_launches if "collector.py" in launch.location]
            assert len(events.graph_launches) == 1
        for name, learner in learners_of(hybrid).items():
            assert isinstance(learner.engine, TorchEngine)
            other = torch_only.assignments[name].learner
            assert_log_probs(other, learner.rollout)
            other.load_rollout(learner.rollout.copies())
            metrics = []
            for updated in (learner, other):
                with gpu.observe() as events:
                    metrics.append(updated.update())
                if number:
                    assert not events.synchronizations
                    assert len(events.graph_launches) == 1, "the update is not captured"
            assert all(same(value, metrics[1][key]) for key, value in metrics[0].items()), metrics
    assert_equal_states(*(on_host(trainer.learners.state_dict()) for trainer in (torch_only, hybrid)))
    for trainer in (hybrid, torch_only):
        trainer.log.close()


@torch.no_grad()
def assert_log_probs(learner, rollout):
    """Compare the log-probabilities of a rollout with those that a learner computes for its actions."""
    decided = rollout.valid if rollout.to_move is None else rollout.valid & rollout.to_move[:-1]
    mask = None if rollout.mask is None else rollout.mask[:-1]
    log_prob = learner.head.evaluate(learner.actor(learner.normalizer(rollout.obs), mask), rollout.action, mask)[0]
    assert decided.any()
    torch.testing.assert_close(rollout.log_prob[decided].cpu(), log_prob[decided].cpu(), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "launches"), [(8, 0), (MAX_THREAD_WIDTH + 8, 4)])
def test_launches_per_step_of_a_rollout(width, launches, gpu, tmp_path):
    """A fused rollout is one launch, and a rollout with tiles has four launches a step; PyTorch has many more."""
    counts = {}
    for engine in ("auto", "torch"):
        for length in (4, 12):
            learner = {"hidden_sizes": (width,), "rollout_length": length}
            case = ("CartPole-v1", "ppo", learner)
            trainer = trainer_of(case, tmp_path / f"{engine}{length}", engine, cuda_graph=False)
            for _ in range(2):  # the first one packs tables
                with gpu.observe() as events:
                    trainer.collector.collect()
                trainer.core.raise_pending_errors()
                trainer.learners.update(1, str)
            counts[engine, length] = events.kernel_launches
            assert not events.synchronizations
            trainer.log.close()
    per_step = {engine: (counts[engine, 12] - counts[engine, 4]) / 8 for engine in ("auto", "torch")}
    assert per_step["auto"] == launches
    assert per_step["torch"] > 40


@pytest.mark.slow
def test_own_loss_and_own_actions_are_used(gpu, tmp_path, monkeypatch):
    """PyTorch computes what a subclass overrides, and kernels may play the rollouts of a learner with its own loss."""
    called = set()

    class OwnLoss(ppo.PPO):
        def _loss(self, batch, rows, divisor):
            called.add("loss")
            return super()._loss(batch, rows, divisor)

    class OwnActions(OwnLoss):
        def act(self, *arguments):
            called.add("act")
            return super().act(*arguments)

    for kind, name, calls in ((OwnLoss, NAME, {"loss"}), (OwnActions, "torch", {"loss", "act"})):
        called.clear()
        monkeypatch.setattr(ppo, "PPO", kind)
        trainer = trainer_of(CASES[0], tmp_path / kind.__name__)
        trainer.iterate()
        trainer.log.close()
        assert trainer.engines == {"agent": name}
        assert called == calls


@pytest.mark.slow
def test_act_that_is_replaced_after_the_choice_is_an_error(gpu, tmp_path):
    trainer = trainer_of(CASES[0], tmp_path)
    learner = trainer.assignments["agent"].learner
    learner._loss = learner._loss  # PyTorch calls it
    trainer.iterate()
    learner.act = learner.act
    with pytest.raises(ConfigError, match="the object's act, which came after"):
        learner.update()
    trainer.log.close()


@pytest.mark.slow
@pytest.mark.parametrize(("device", "in_kernels"), [("cuda:0", True), ("cpu", False)])
def test_actors_play_in_kernels_on_devices_of_the_learners_type(device, in_kernels, gpu, tmp_path):
    trainer = trainer_of(("CartPole-v1", "appo", FEW_STEPS), tmp_path, num_actors=1, actor_device=device)
    learner = trainer.assignments["agent"].learner
    actor = RolloutActor(trainer.config, 0)
    for number in range(2):
        trajectory = actor.sample(number, number, {"agent": learner.net.state_dict()})
        learner.load_rollout(trajectory.rollouts["agent"])
        assert_log_probs(learner, learner.rollout)
        assert learner.update()
    assert (actor.collector.kernels is not None) == in_kernels
    text = f"{NAME} (algorithm: expected advantages by GAE" if in_kernels else "engine torch (actors on cpu)"
    assert engine_text(trainer.engines, trainer.reasons_for_torch).startswith(text)
    trainer.log.close()
