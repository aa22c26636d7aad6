"""Results that an environment declares, averaged over the episodes that end in each iteration of a training."""

import csv
import io
from dataclasses import replace

import climbers
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from toy import announce

from gpu_envs.utils.progress import ProgressBar
from trainers.algorithms.on_policy.appo import APPOConfig
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.runner.collector import Collector
from trainers.runner.learner_group import LearnerGroup
from trainers.runner.multi_seed import train_seeds
from trainers.runner.trainer import Trainer
from trainers.storage.learning_curves import plot_curves, read_rows

COLUMNS = ("climber/episode_return_mean", "climber/height_mean", "climber/is_high_mean")


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    announce(monkeypatch, "Climbers-v0", climbers)


def configured(**changes):
    learner = PPOConfig(rollout_length=12, num_epochs=1, hidden_sizes=(8,))
    fields = {"num_envs": 16, "total_steps": 3 * 16 * 12, "eval_episodes": 0, "num_threads": 1, "learner": learner}
    return TrainConfig("Climbers-v0", **{**fields, **changes})


def means_of_recorded_episodes(recorder):
    """Return the number of recorded episodes, the mean return of their agents and the share of returns above 3."""
    returns = torch.tensor([episode.reward.sum(0).tolist() for episode in recorder.take()])
    return len(returns), float(returns.mean()), float((returns > 3).float().mean())


def test_means_are_those_of_recorded_episodes():
    config = configured()
    core = make_train_core(config, config.num_envs, config.seed)
    collector = Collector(config, core, LearnerGroup(config, core))
    counts = []
    with core.record_episodes(range(config.num_envs)) as recorder:
        collector.kernels = None
        for iteration in range(3):
            collector.collect()
            collector.learners.update(iteration, str)
            row = collector.episodes.read()
            count, mean, share = means_of_recorded_episodes(recorder)
            counts.append(count)
            assert row["climber/height_mean"] == pytest.approx(mean)  # the height of an end is the return
            assert row["climber/is_high_mean"] == pytest.approx(share)
    assert min(counts) > 0
    assert 0 < share < 1


@pytest.mark.parametrize("engine", ["torch", "kernel"])
def test_rows_have_the_means_of_the_episodes_that_ended(engine, tmp_path):
    trainer = Trainer(configured(engine=engine), tmp_path)
    with_kernels = trainer.collector.kernels is not None
    assert with_kernels == (engine == "kernel")
    expected, read = [], trainer.episodes.read

    def read_and_check(reducer):
        ended = trainer.episodes.returns.flatten(0, 1)[trainer.episodes.over.flatten()]
        expected.append([float(ended.double().mean()), float((ended > 3).double().mean())])
        return read(reducer)

    trainer.episodes.read = read_and_check
    trainer.run()
    rows = read_rows(tmp_path / "metrics.csv")
    assert len(rows) == 3
    for row, (mean, share) in zip(rows, expected, strict=True):
        values = [float(row[name]) for name in COLUMNS]
        assert values == pytest.approx([mean, mean, share], rel=1e-6)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [event.value for event in events.Scalars("climber/is_high_mean")] == pytest.approx([w[1] for w in expected])
    assert plot_curves(tmp_path / "metrics.csv", tmp_path / "curves.png") is not None


TAGS = {"tagging_distance": 0.15, "grid_length": 2.0, "num_taggers": 2, "num_runners": 5, "episode_length": 9}
COUNTED = {
    "TagContinuous-v0": (
        {**TAGS, "num_other_agents_observed": 3, "end_of_game_reward_for_runner": 0.0},
        "runner/survived_mean",
        lambda total: 1.0 + total / 10.0,  # only a tag changes the return, by -10
    ),
    "TagGridworld-v0": (
        {"num_taggers": 2, "grid_length": 4, "episode_length": 9, "wall_hit_penalty": 0.0, "step_cost_for_tagger": 0.0},
        "runner/survived_mean",
        lambda total: 1.0 + total / 2.0,
    ),
    "RobotWarehouse-v0": (
        {"layout": "xx.|.g.|x.x", "n_agents": 3, "request_queue_size": 3, "max_steps": 40},
        "robot/deliveries_mean",
        lambda total: total,
    ),
    "SimpleTag-v0": (
        {"num_good": 2, "num_adversaries": 6, "num_obstacles": 0, "max_cycles": 20},
        "adversary/touches_mean",
        lambda total: total / 10.0,  # the reward of every touch
    ),
    "SimpleSpread-v0": (
        {"N": 6, "local_ratio": 1.0, "max_cycles": 20},
        "agent/collisions_mean",
        lambda total: -total,  # the only penalty
    ),
}
"""Settings, column, and its value as a function of the mean return, by environment."""


@pytest.mark.parametrize("engine", ["torch", "kernel"])
@pytest.mark.parametrize("env_id", COUNTED)
def test_results_are_those_that_returns_tell(env_id, engine, tmp_path):
    env, column, from_return = COUNTED[env_id]
    learner = PPOConfig(rollout_length=40, num_epochs=1, hidden_sizes=(8,))
    config = configured(learner=learner, env=env, engine=engine, num_envs=8, total_steps=2 * 8 * 40)
    Trainer(replace(config, env_id=env_id), tmp_path).run()
    rows = read_rows(tmp_path / "metrics.csv")
    values = [float(row[column]) for row in rows]
    total = column.split("/")[0] + "/episode_return_mean"
    assert values == pytest.approx([from_return(float(row[total])) for row in rows], rel=1e-6)
    assert max(values) > 0.0
    assert len(rows) == 2
    if "survived" in column:
        assert max(values) < 1.0
        assert [float(row["tagger/survived_mean"]) for row in rows] == [1.0, 1.0]


@pytest.mark.parametrize("engine", ["torch", "kernel"])
def test_evaluations_have_the_results_of_their_episodes(engine, tmp_path):
    trainer = Trainer(configured(engine=engine, eval_episodes=32), tmp_path)
    trainer.evaluator.metrics = {"share_above_3": lambda episodes: (episodes.returns > 3).double().mean(1)}
    trainer.run()
    row = {name: float(cell) for name, cell in read_rows(tmp_path / "metrics.csv")[-1].items() if cell}
    assert {name for name in row if name.startswith("eval/")} == set(trainer.evaluator.columns)
    assert 2.0 * row["eval/climber/height_mean"] == pytest.approx(row["eval/climber/return"], rel=1e-6)
    assert 0.0 < row["eval/climber/is_high_mean"] < 1.0
    assert row["eval/climber/is_high_mean"] == pytest.approx(row["eval/climber/share_above_3"], rel=1e-6)


def test_actors_send_results_with_their_rollouts(tmp_path):
    learner = APPOConfig(rollout_length=12, num_epochs=1, hidden_sizes=(8,))
    Trainer(configured(num_actors=1, algorithm="appo", learner=learner), tmp_path).run()
    rows = read_rows(tmp_path / "metrics.csv")
    assert rows
    for row in rows:
        assert float(row["climber/height_mean"]) == pytest.approx(float(row["climber/episode_return_mean"]))


def test_columns_exist_from_the_first_row_on_and_the_progress_has_the_latest_means(tmp_path):
    file = io.StringIO()
    learner = PPOConfig(rollout_length=3, num_epochs=1, hidden_sizes=(8,))  # episodes have five steps
    config = configured(learner=learner, total_steps=3 * 16 * 3, env={"top": 1000})
    Trainer(config, tmp_path, progress=ProgressBar(config.total_steps, interval=0.0, file=file)).run()
    with (tmp_path / "metrics.csv").open(encoding="utf-8") as rows:
        first, second, third = csv.DictReader(rows)
    assert first.keys() == third.keys()
    assert [first[name] for name in COLUMNS] == ["", "", ""]
    assert float(second["climber/height_mean"]) == float(second["climber/episode_return_mean"])
    lines = file.getvalue().splitlines()
    assert lines[0].endswith("return per agent: climber -  height climber -  is_high climber -")
    mean, share = (float(second[name]) for name in COLUMNS[1:])
    assert lines[1].endswith(
        f"return per agent: climber {mean:.2f}  height climber {mean:.2f}  is_high climber {share:.2f}"
    )
    assert lines[2].endswith(lines[1][lines[1].index("return") :]), "the latest means stay"


def test_means_over_seeds_have_results(tmp_path):
    file = io.StringIO()
    config = configured(total_steps=2 * 16 * 12)
    with ProgressBar(2 * config.total_steps, interval=0.0, file=file) as progress:
        train_seeds(config, 2, tmp_path, progress=progress)
    runs = [read_rows(tmp_path / name / "metrics.csv")[-1] for name in ("seed-0", "seed-1")]
    mean = sum(float(run["climber/is_high_mean"]) for run in runs) / 2
    assert float(read_rows(tmp_path / "mean_metrics.csv")[-1]["climber/is_high_mean"]) == pytest.approx(mean)
    assert f"is_high climber {mean:.2f}" in file.getvalue().splitlines()[-1]
