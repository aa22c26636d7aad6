"""Training with Lightning equals training with `Trainer`, and features of Lightning work."""

import csv
import dataclasses
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.config.train_config import TrainConfig
from trainers.runner import training_evaluator
from trainers.runner.trainer import Trainer
from trainers.storage.learning_curves import read_rows

HERE = Path(__file__).parent
sys.path.append(str(HERE.parents[1] / "examples"))
lightning = pytest.importorskip("lightning")
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint  # noqa: E402
from lightning.pytorch.loggers import CSVLogger  # noqa: E402

from trainers.integrations.lightning import LearnerModule  # noqa: E402


def tag(rollouts=6, **changes):
    """Return a training of two policies; an epoch has three rollouts of 2 * 4 gradient steps."""
    ppo = PPOConfig(rollout_length=8, num_epochs=2, num_minibatches=2, hidden_sizes=(16,), **changes)
    settings = {
        "env": {"max_cycles": 10},
        "num_envs": 8,
        "checkpoint_interval": 3,
        "eval_episodes": 0,
        "num_threads": 1,
    }
    return TrainConfig("SimpleTag-v0", total_steps=64 * rollouts, learner=ppo, **settings)


def fit(module, out, ckpt_path=None, **settings):
    settings = {"logger": False, "enable_checkpointing": False, **settings}
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "log_every_n_steps": 1}
    trainer = lightning.Trainer(accelerator="cpu", devices=1, default_root_dir=out, **quiet, **settings)
    trainer.fit(module, ckpt_path=ckpt_path)
    return trainer


def assert_equal(mine, theirs):
    """Assert that two states are equal bit for bit."""
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        same = torch.equal(value, theirs[name]) if isinstance(value, torch.Tensor) else value == theirs[name]
        assert same, name


def test_learns_the_same_as_trainer(tmp_path):
    config = tag(target_kl=1e-4)
    plain = Trainer(config, tmp_path / "plain")
    while plain.iteration < config.iterations:
        plain.iterate()
    plain.log.close()
    module = LearnerModule(config)
    trainer = fit(module, tmp_path, logger=CSVLogger(tmp_path))
    assert module.iteration == 6
    assert_equal(module.training_state(), plain.state_dict())
    with Path(trainer.logger.log_dir, "metrics.csv").open(encoding="utf-8", newline="") as file:
        theirs = list(csv.DictReader(file))
    ours = read_rows(tmp_path / "plain" / "metrics.csv")
    assert [row["env_steps"] for row in ours] == [str(int(float(row["env_steps"]))) for row in theirs]
    columns = set(ours[0]) - {"iteration", "seconds"}
    columns -= {"time/evaluation", "time/logging", "time/checkpoint"}  # Lightning's profiler times what it does
    assert columns <= set(theirs[0])
    for mine, its in zip(ours, theirs, strict=True):
        for name in columns - {"env_steps", "env_steps_per_second"}:
            if mine[name] and not name.startswith("time/"):
                assert float(its[name]) == pytest.approx(float(mine[name]), rel=1e-5, abs=1e-7)
    assert trainer.global_step == sum(
        float(row[f"{policy}/gradient_steps"]) for row in theirs for policy in ("adversary", "agent")
    )


@pytest.mark.parametrize("after", [2, 3], ids=["within an epoch", "at its end"])
def test_resumes_bit_for_bit(tmp_path, after):
    saver = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=1, save_top_k=-1)
    reference = LearnerModule(tag())
    steps = fit(reference, tmp_path, callbacks=[saver], enable_checkpointing=True).global_step
    saved = tmp_path / f"step={after * 8}.ckpt"
    torch.load(saved, weights_only=True)  # nothing in it is code
    resumed = LearnerModule(tag())
    trainer = fit(resumed, tmp_path, saved)
    assert (resumed.iteration, trainer.global_step, trainer.current_epoch) == (6, steps, 2)
    assert_equal(resumed.training_state(), reference.training_state())
    assert resumed.latest_metrics == reference.latest_metrics


def test_policies_come_out_of_a_checkpoint(tmp_path):
    module = LearnerModule(tag())
    fit(module, tmp_path, callbacks=[ModelCheckpoint(tmp_path, "last")], enable_checkpointing=True)
    policies = LearnerModule.load_from_checkpoint(tmp_path / "last.ckpt").policies()
    assert list(policies) == ["adversary", "agent"]
    for name, policy in module.policies().items():
        assert_equal(policies[name].actor.state_dict(), policy.actor.state_dict())
        assert torch.equal(policies[name].normalizer.mean, policy.normalizer.mean)


def test_refuses_checkpoints_that_do_not_fit(tmp_path):
    saved = tmp_path / "last.ckpt"
    fit(LearnerModule(tag()), tmp_path, callbacks=[ModelCheckpoint(tmp_path, "last")], enable_checkpointing=True)
    with pytest.raises(CheckpointError, match="after 6 of 6 rollouts; raise total_steps"):
        fit(LearnerModule(tag()), tmp_path, saved)
    with pytest.raises(CheckpointError, match="learner: expected"):
        fit(LearnerModule(tag(12, gamma=0.5)), tmp_path, saved)
    content = torch.load(saved, weights_only=True)
    content["gpu_envs"]["states"] *= 2
    torch.save(content, saved)
    with pytest.raises(CheckpointError, match="expected one of 1 processes, got one of 2"):
        fit(LearnerModule(tag(12)), tmp_path, saved)
    del content["gpu_envs"]
    torch.save(content, saved)
    with pytest.raises(CheckpointError, match="expected a checkpoint of a LearnerModule"):
        fit(LearnerModule(tag(12)), tmp_path, saved)


@pytest.mark.parametrize(
    ("settings", "trainer_settings", "message"),
    [
        ({}, {"gradient_clip_val": 0.7, "gradient_clip_algorithm": "value"}, "learners clip by the norm, 'norm'"),
        ({}, {"precision": "bf16-mixed"}, "learners compute in float32"),
        ({"patience": 3, "eval_episodes": 8}, {}, "patience = .*: has no effect under Lightning; use EarlyStopping"),
        ({"keep_last_checkpoints": 1}, {}, "keep_last_checkpoints = .*: has no effect under Lightning; use ModelChe"),
    ],
)
def test_unsupported_settings_are_refused(settings, trainer_settings, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        fit(LearnerModule(dataclasses.replace(tag(), **settings)), tmp_path, **trainer_settings)


def test_gradients_are_clipped_to_gradient_clip_val(tmp_path):
    """As the learner's own `max_grad_norm` of that value would."""
    by_trainer, by_learner = LearnerModule(tag()), LearnerModule(tag())
    learner = dataclasses.replace(by_learner.config.learner, max_grad_norm=0.01)
    by_learner.config = dataclasses.replace(by_learner.config, learner=learner)
    fit(by_trainer, tmp_path / "one", max_steps=8, gradient_clip_val=0.01)
    fit(by_learner, tmp_path / "two", max_steps=8)
    plain = LearnerModule(tag())
    fit(plain, tmp_path / "three", max_steps=8)
    weights = [
        torch.cat([p.detach().flatten() for p in module.parameters()]) for module in (by_trainer, by_learner, plain)
    ]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_ends_at_max_steps(tmp_path):
    module = LearnerModule(tag())
    trainer = fit(module, tmp_path, max_steps=9)  # gradient steps, in whole rollouts
    assert (module.iteration, trainer.global_step) == (2, 16)


def test_callbacks_follow_evaluations(tmp_path, monkeypatch):
    """Evaluations equal `Trainer`'s; callbacks keep the best checkpoint and stop without progress."""
    config = dataclasses.replace(tag(rollouts=30), eval_episodes=8)
    plain = Trainer(dataclasses.replace(config, total_steps=64 * 6), tmp_path / "plain")
    plain.run()
    ours = [float(row["eval/score"]) for row in read_rows(plain.log.path) if row["eval/score"]]
    best = ModelCheckpoint(tmp_path, "{epoch}", monitor="eval/score", mode="max")
    trainer = fit(LearnerModule(config), tmp_path, callbacks=[best], enable_checkpointing=True, max_epochs=2)
    assert float(trainer.callback_metrics["eval/score"]) == pytest.approx(ours[-1], rel=1e-5)
    assert float(best.best_model_score) == pytest.approx(max(ours), rel=1e-5)
    assert Path(best.best_model_path).name == f"epoch={ours.index(max(ours))}.ckpt"

    scores = iter([1.0, 3.0, 2.0, 2.5, 9.0])
    monkeypatch.setattr(
        training_evaluator.TrainingEvaluator, "scores", lambda self, policies: {"eval/score": next(scores)}
    )
    module = LearnerModule(config)
    fit(module, tmp_path, callbacks=[EarlyStopping("eval/score", mode="max", patience=2)])
    assert module.iteration == 4 * 3


def test_gradients_are_clipped_before_callbacks_see_them(tmp_path):
    norms = []

    class Norms(lightning.Callback):
        def on_before_optimizer_step(self, trainer, module, optimizer):
            gradients = [p.grad for group in optimizer.param_groups for p in group["params"]]
            norms.append(float(torch.nn.utils.get_total_norm(gradients)))

    trainer = fit(LearnerModule(tag(max_grad_norm=0.01)), tmp_path, callbacks=[Norms()], max_epochs=1)
    assert len(norms) == trainer.global_step == 24
    assert max(norms) == pytest.approx(0.01, rel=1e-3)
    assert trainer.callback_metrics["adversary/grad_norm"] > 0.01


def test_stops_when_losses_are_no_longer_finite(tmp_path):
    module = LearnerModule(tag(learning_rate=1e30, normalize_obs=False))
    with pytest.raises(GpuEnvsError, match="the training has diverged"):
        fit(module, tmp_path)


def run(out, algorithm="ppo", *checkpoint):
    """Return the state of two processes after a training."""
    out.mkdir()
    script = [sys.executable, str(HERE / "lightning_run.py"), str(out), algorithm, *map(str, checkpoint)]
    environ = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    done = subprocess.run(script, capture_output=True, text=True, timeout=300, env=environ, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [torch.load(out / f"rank{rank}.pt", weights_only=True) for rank in (0, 1)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    out = tmp_path_factory.mktemp("ddp") / "whole"
    return out, run(out)


def learned(rank):
    local_names = ("generator", ".replay.", ".replay_")  # every process has its own
    return {
        k: v
        for k, v in rank["state"].items()
        if k.startswith("learner.") and not any(part in k for part in local_names)
    }


def test_two_processes_play_different_worlds_and_learn_the_same(pair):
    first, second = pair[1]
    assert (first["env_offset"], second["env_offset"]) == (0, 4)
    assert not (first["state"]["core.io.obs"] == second["state"]["core.io.obs"]).all(-1).any()
    assert first["rows"] != second["rows"]  # so that minibatches differ in size
    assert first["gradient_steps"] == second["gradient_steps"] > 0
    assert first["iteration"] == second["iteration"] == 6
    assert_equal(learned(first), learned(second))
    assert first["metrics"] == second["metrics"]
    assert not torch.equal(first["state"]["learner.runner.generator"], second["state"]["learner.runner.generator"])
    count = sum(first["rows"]) + sum(second["rows"])
    assert all(rank["state"]["learner.runner.net.normalizer.count"] == count for rank in (first, second))


def test_two_processes_resume_bit_for_bit(pair, tmp_path):
    out, ranks = pair
    resumed = run(tmp_path / "resumed", "ppo", out / "epoch=0.ckpt")
    for mine, other in zip(resumed, ranks, strict=True):
        assert_equal(mine["state"], other["state"])
        assert mine["rows"] == other["rows"][3:]
        assert mine["gradient_steps"] == other["gradient_steps"]


@pytest.mark.parametrize("algorithm", ["dqn", "sac"])
def test_two_processes_with_replays_of_their_own_learn_the_same(algorithm, tmp_path):
    out = tmp_path / "whole"
    first, second = ranks = run(out, algorithm)
    assert (first["env_offset"], second["env_offset"]) == (0, 4)
    replay = "learner.adversary.replay.obs"
    assert first["state"][replay].shape[:3] == (32, 4, 3)
    assert not torch.equal(first["state"][replay], second["state"][replay])
    assert first["gradient_steps"] == second["gradient_steps"] > 0
    assert_equal(learned(first), learned(second))
    assert any(name.endswith("actor.body.0.weight") for name in learned(first))
    assert first["metrics"] == second["metrics"]
    assert math.isfinite(first["metrics"]["eval/score"])
    resumed = run(tmp_path / "resumed", algorithm, out / "epoch=0.ckpt")
    for mine, other in zip(resumed, ranks, strict=True):
        assert_equal(mine["state"], other["state"])


def test_example_in_one_file_learns():
    import lightning_ppo

    torch.set_num_threads(1)
    returns = lightning_ppo.train(iterations=34, device="cpu")
    assert len(returns) == 34
    assert sum(returns[-3:]) > 2 * sum(returns[:3])


def test_example_trains_and_resumes(tmp_path):
    import lightning_train

    policies, metrics, best = lightning_train.train(tmp_path, total_steps=64 * 25 * 10)
    assert list(policies) == ["adversary", "agent"]
    assert metrics["env_steps"] == 64 * 25 * 10
    later = lightning_train.train(tmp_path / "later", total_steps=64 * 25 * 20, resume=best.last_model_path)
    assert later[1]["env_steps"] == 64 * 25 * 20
