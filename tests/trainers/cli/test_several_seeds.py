"""`gpu-envs train --num-seeds`: ordinary runs, signals, exit codes, errors."""

import json
import shutil
import signal

import pytest
from checkpoints import iterations_of
from small_commands import WITHOUT_VIDEO, no_curves, run  # noqa: F401

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.cli.evaluate import eval_command
from trainers.cli.train import train_command
from trainers.runner.trainer import Trainer


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    out = tmp_path_factory.mktemp("seeds")
    options = ["--num-seeds", "2", "--seed", "5", "--total-steps", "320", "--run-dir", str(out)]
    assert train_command([*WITHOUT_VIDEO, *options]) == 0
    return out


@pytest.mark.slow
def test_several_seeds_have_ordinary_runs(seeds, tmp_path, capsys):
    for file in ("seeds.json", "summary.json", "mean_metrics.csv", "curves.png"):
        assert (seeds / file).stat().st_size > 0, file
    assert sorted(path.name for path in seeds.glob("seed-*")) == ["seed-5", "seed-6"]
    assert json.loads((seeds / "seed-6" / "config.json").read_text())["seed"] == 6
    assert eval_command([str(seeds / "seed-6"), "--episodes", "4"]) == 0
    capsys.readouterr()
    shutil.copytree(seeds, tmp_path / "copy")
    argv = ["--resume", str(tmp_path / "copy"), "--total-steps", "480"]
    assert train_command(argv) == 0  # the id and the number of seeds are recorded
    output = capsys.readouterr().out
    assert output.startswith("training 2 seeds on SimpleTag-v0: 16 worlds each on cpu, engine torch (as recorded), ")
    assert "  seed-6: 480 steps" in output
    assert [iterations_of(tmp_path / "copy" / name) for name in ("seed-5", "seed-6")] == [[1, 2, 3]] * 2
    single = ["--resume", str(tmp_path / "copy" / "seed-5"), "--total-steps", "640", "--no-video"]
    assert train_command([*single, "--eval-episodes", "0"]) == 0
    assert iterations_of(tmp_path / "copy" / "seed-5") == [1, 2, 3, 4]


@pytest.mark.usefixtures("no_curves", "usual_signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_names_the_command_that_continues_all_seeds(tmp_path, capsys, monkeypatch, number):
    iterate, out, signals = Trainer.iterate, tmp_path / "my runs", [number]

    def iterate_and_signal(trainer):
        iterate(trainer)
        if signals:  # a second one would end the process
            signal.raise_signal(signals.pop())

    monkeypatch.setattr(Trainer, "iterate", iterate_and_signal)
    argv = [*WITHOUT_VIDEO, "--num-seeds", "2", "--eval-episodes", "0", "--run-dir", str(out)]
    assert train_command(argv) == 128 + number
    output = capsys.readouterr().out
    assert f"{number.name}: saved 2 runs; continue with:\n  gpu-envs train --resume '{out}'\n" in output
    assert f"\n  '{out}" not in output, "files are no words of a command"


@pytest.mark.parametrize(("goal", "code"), [("-1e9", 0), ("1e9", 1)])
def test_exit_code_says_whether_all_seeds_reached_the_goal(tmp_path, capsys, goal, code):
    argv = ["CartPole-v1", "--device", "cpu", "--num-envs", "64", "--total-steps", "12800", "--num-seeds", "2"]
    argv += [
        "--learner.num-epochs",
        "1",
        f"--until-return={goal}",
        "--eval-episodes",
        "0",
        "--engine",
        "torch",
        "--run-dir",
        str(tmp_path),
    ]
    assert train_command(argv) == code
    output = capsys.readouterr().out
    assert f"{2 * (1 - code)} of 2 runs reached {float(goal):g}, " in output
    assert output.count("goal not reached") == 2 * code
    assert not (tmp_path / "curves.png").exists()


def test_errors_about_several_seeds_are_one_line(run, seeds, tmp_path):
    for error, message, argv in [
        (ConfigError, "--num-seeds: expected an int >= 1, or None, got 0", ["SimpleTag-v0", "--num-seeds", "0"]),
        (
            ConfigError,
            "--num-seeds: expected the folder of several seeds after --resume, got the single run .*; leave",
            ["--resume", str(run), "--num-seeds", "2"],
        ),
        (
            ConfigError,
            "--num-workers: expected a training with one seed, got several; train in this process",
            ["SimpleTag-v0", "--num-seeds", "2", "--num-workers", "2"],
        ),
        (
            ConfigError,
            "--video: expected a training with one seed, got several; use gpu-envs render",
            ["SimpleTag-v0", "--num-seeds", "2", "--video"],
        ),
        (
            ConfigError,
            "--run-dir: expected none, because several seeds continue in their folder",
            ["--resume", str(seeds), "--run-dir", str(tmp_path / "other")],
        ),
        (
            CheckpointError,
            "seeds.json: env_id: expected TagContinuous-v0, got SimpleTag-v0",
            ["TagContinuous-v0", "--resume", str(seeds)],
        ),
        (
            ConfigError,
            r"seed: expected an int in \[0, 2\*\*63\), got 9223372036854775808",
            ["SimpleTag-v0", "--seed", str(2**63 - 1), "--num-seeds", "2", "--run-dir", str(tmp_path / "other")],
        ),
    ]:
        with pytest.raises(error, match=message) as caught:
            train_command(argv)
        assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
