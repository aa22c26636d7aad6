"""`gpu-envs render`: what plays, and in which worlds."""

import re
import shutil
from pathlib import Path

import imageio.v3 as iio
import pytest

from gpu_envs.cli import main
from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.rendering.scoreboard import LEAST_HEIGHT
from trainers.base.serialization import read_json, write_json
from trainers.cli import render
from trainers.evaluation.checkpoint_play import load_play
from trainers.storage import checkpoint, run_folder

MODEL = "zoo:cartpole-ppo"


def rendered(capsys, tmp_path, line: str, suffix: str = "gif") -> tuple[list[str], bytes]:
    """Return the printed lines of the command, and its output file."""
    path = tmp_path / f"x.{suffix}"
    assert render.render_command(["--device", "cpu", "--size", "24", "--output", str(path), *line.split()]) == 0
    return capsys.readouterr().out.splitlines(), path.read_bytes()


def test_policies_of_a_checkpoint_act_in_its_environments(capsys, tmp_path):
    line = "CartPole-v1 --steps 40 --num-envs 2 --seed 3"
    (playing, written), trained = rendered(capsys, tmp_path, f"{line} --checkpoint {MODEL} --greedy")
    assert playing.startswith("playing: agent of ")
    assert "(step " in playing
    assert written == str(tmp_path / "x.gif")
    (only,), chance = rendered(capsys, tmp_path, line)
    assert only == written
    assert trained != chance
    assert rendered(capsys, tmp_path, f"{line} --checkpoint {MODEL} --greedy")[1] == trained


def test_settings_of_the_checkpoint_are_used_and_printed(capsys, tmp_path, monkeypatch):
    saved = checkpoint.load

    def tampered(path, *arguments):
        read = saved(path, *arguments)
        read.config["env"] = {"max_episode_steps": 7, "gravity": 5.0}
        return read

    monkeypatch.setattr(checkpoint, "load", tampered)
    line = f"CartPole-v1 --steps 2 --num-envs 1 --checkpoint {MODEL} --env-arg gravity=3.5"
    (playing, _), _ = rendered(capsys, tmp_path, line, "png")
    assert playing.endswith(", with its settings max_episode_steps=7, gravity=3.5")


def test_best_of_several_seeds_is_rendered(capsys, tmp_path):
    model = checkpoint.zoo_folder("cartpole-ppo")
    manifest = read_json(model / "manifest.json")
    for seed, score in enumerate((10.0, 30.0, None)):
        run = tmp_path / "seeds" / f"seed-{seed}"
        saved = shutil.copytree(model, run / "checkpoints" / f"{manifest['iteration']:09d}")
        write_json(saved / "manifest.json", {**manifest, "score": score})
        write_json(run / "config.json", manifest["config"])
    run_folder.write_seeds(tmp_path / "seeds", 3, {"seed": 0})
    line = f"CartPole-v1 --steps 2 --num-envs 1 --checkpoint {tmp_path / 'seeds'}"
    (playing, _), _ = rendered(capsys, tmp_path, line, "png")
    assert f"{tmp_path / 'seeds' / 'seed-1'}/" in playing
    assert ", the best of 3 seeds, score 30" in playing
    for seed in (0, 1):
        shutil.rmtree(tmp_path / "seeds" / f"seed-{seed}")
    (playing, _), _ = rendered(capsys, tmp_path, line, "png")
    assert ", the first of 1 seeds, which have no evaluations" in playing


TAG = "zoo:simple-tag-ppo"


def test_two_runs_play_against_each_other(capsys, tmp_path):
    line = f"{TAG} --opponents {TAG} --as agent --num-envs 1 --steps 3"
    (playing, _), picture = rendered(capsys, tmp_path, line, "png")
    assert re.fullmatch(r"playing: \S+ \(step \S+\) as agent against \S+ \(step \S+\) as adversary", playing)
    height, width = iio.imread(picture).shape[:2]
    assert (width, height) == (24, 24 + 2 * LEAST_HEIGHT)


def test_match_has_policies_of_both_runs():
    play = load_play(Path(TAG), {}, 1, "cpu", 0)
    match = play.against(Path(TAG), "agent", 0)
    assert match.players["agent"] is play.players["agent"]
    assert match.players["adversary"] is not play.players["adversary"]
    assert {name.rpartition(" as ")[2]: rows for name, rows in match.rows.items()} == {
        "agent": [3],
        "adversary": [0, 1, 2],
    }


def test_run_may_take_the_place_of_the_id(capsys, tmp_path):
    (playing, _), picture = rendered(capsys, tmp_path, f"{MODEL} --steps 2 --num-envs 1 --greedy", "png")
    line = f"CartPole-v1 --checkpoint {MODEL} --steps 2 --num-envs 1 --greedy"
    assert rendered(capsys, tmp_path, line, "png") == ([playing, str(tmp_path / "x.png")], picture)


@pytest.mark.parametrize(
    ("line", "error", "words"),
    [
        (f"SimpleTag-v0 --checkpoint {MODEL}", CheckpointError, "env_id: expected SimpleTag-v0, got CartPole-v1"),
        ("CartPole-v1 --checkpoint zoo:none", ConfigError, "no model in the zoo named 'none'; expected one of"),
        ("CartPole-v1 --checkpoint nowhere", CheckpointError, "nowhere"),
        (f"{TAG} --checkpoint {TAG}", ConfigError, "expected an environment id with --checkpoint, got the run zoo:"),
        (f"{MODEL} --opponents {MODEL}", ConfigError, "all agents of CartPole-v1 share one policy"),
        (f"{TAG} --opponents {MODEL}", CheckpointError, "env_id: expected SimpleTag-v0, got CartPole-v1"),
        (f"{TAG} --opponents {TAG} --as agnt", ConfigError, "--as: no side named 'agnt'; did you mean agent"),
        (f"{TAG} --as agent", ConfigError, "--as has no effect without --opponents"),
        (f"SimpleTag-v0 --opponents {TAG}", ConfigError, "--opponents has no effect without --checkpoint"),
        ("CartPole-v1 --trails -1", ConfigError, r"--trails: expected an int in \[0, 2147483647\], or None, got -1"),
        (
            "SimpleTag-v0 --checkpoint zoo:simple-tag-ppo --env-arg num_good=2",
            CheckpointError,
            "obs_width: expected",
        ),
    ],
)
def test_unfit_checkpoint_raises_one_line(tmp_path, line, error, words):
    with pytest.raises(error, match=words) as raised:
        render.render_command([*line.split(), "--device", "cpu", "--output", str(tmp_path / "x.png")])
    assert "\n" not in str(raised.value)


def test_last_frame_of_an_episode_is_shown(capsys, tmp_path):
    """A game of one step: its joint action is framed on every second picture, before the next game starts."""
    iio = pytest.importorskip("imageio.v3")
    rendered(capsys, tmp_path, "ClimbingGame-v0 --steps 4 --num-envs 1 --size 96")
    frames = iio.imread(tmp_path / "x.gif", index=...)
    dark = [int((frame[..., :3].max(-1) < 90).sum()) for frame in frames]
    assert dark[1] > dark[0]
    assert dark[3] > dark[2]


def test_command_is_found_by_its_name(capsys):
    with pytest.raises(SystemExit):
        main(["render", "--help"])
    assert "--checkpoint" in capsys.readouterr().out
