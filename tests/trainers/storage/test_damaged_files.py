"""Damaged files of a run: every command says so in one line, with exit code 2, and leaves the run as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from damages import CASES, COMMANDS, IDS, READERS, SPEC, Damage

from gpu_envs.cli import dispatch
from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.runtime.factory import make_core
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.config.train_config import TrainConfig
from trainers.evaluation import record_episodes
from trainers.runner.trainer import Trainer
from trainers.storage import recording_files


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    out = tmp_path_factory.mktemp("damaged") / "run"
    ppo = PPOConfig(rollout_length=4, num_epochs=1, num_minibatches=1, hidden_sizes=(4,))
    shared = {"num_envs": 4, "total_steps": 32, "checkpoint_interval": 1, "eval_episodes": 0, "num_threads": 1}
    Trainer(TrainConfig("CartPole-v1", learner=ppo, **shared), out).run()
    return out


def contents(run: Path) -> dict[str, bytes]:
    return {str(file.relative_to(run)): file.read_bytes() for file in sorted(run.rglob("*")) if file.is_file()}


def check_refused(run: Path, user: str, capsys) -> str:
    """Read a run and return the one-line error."""
    original = contents(run)
    if user in READERS:
        with pytest.raises((CheckpointError, ConfigError)) as caught:
            READERS[user](run)
        line = str(caught.value)
    else:
        assert dispatch.main(COMMANDS[user](run)) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("gpu-envs: error: ")
        line = err.rstrip("\n")
    assert "\n" not in line
    assert len(line) < 1500
    assert contents(run) == original
    assert [path.name for path in run.parent.iterdir()] == [run.name]
    return line


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    out = tmp_path_factory.mktemp("recorded") / "run"
    episodes, _ = record_episodes.record_policies(make_core("CartPole-v1", 3, "cpu", seed=0), {}, seed=0)
    recording_files.save(out, episodes, "CartPole-v1", {})
    return out


def damaged(original: Path, recorded: Path, tmp_path: Path, case: tuple[str, str, Damage, tuple[str, ...]]) -> Path:
    file, _, damage, users = case
    run = tmp_path / "place" / "run"
    shutil.copytree(recorded if users == ("clone",) else original, run)
    damage(run / file)
    return run


def test_damaged_file_is_one_line(original, recorded, tmp_path, capsys):
    """Every damage is read by one of those that have to refuse it, in turn, and only some of the wrong types."""
    few = [case for case in CASES if "=" not in case[1] or case[0] == SPEC][::5]
    for number, case in enumerate(few):
        user = case[3][number % len(case[3])]
        try:
            check_refused(damaged(original, recorded, tmp_path / str(number), case), user, capsys)
        except BaseException as error:
            raise AssertionError(f"{case[0]}: {case[1]}: {user}") from error


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_every_damaged_file_is_one_line_everywhere(original, recorded, tmp_path, capsys, case):
    run = damaged(original, recorded, tmp_path, case)
    for user in case[3]:
        check_refused(run, user, capsys)
