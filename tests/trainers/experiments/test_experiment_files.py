"""Files of experiments: cells, settings, and what is refused before anything trains."""

import json

import pytest

from gpu_envs.cli.dispatch import main
from gpu_envs.errors import ConfigError
from trainers.experiments.experiment import Experiment
from trainers.experiments.grid import Grid
from trainers.storage.config_yaml import format_config

FILE = {
    "seeds": 2,
    "settings": {"total_steps": 2048, "num_envs": 8, "device": "cpu"},
    "evaluation": {"every": 512, "episodes": 4},
    "tasks": {"pole": {"settings": {"env_id": "CartPole-v1"}, "bounds": [0, 500], "threshold": 20}},
    "algorithms": {"ppo": None, "small": {"algorithm": "ppo", "learner": {"hidden_sizes": [8]}}},
}


POLE = FILE["tasks"]["pole"]
TAG = {"settings": {"env_id": "SimpleTag-v0"}}


def read(tmp_path, changes=None, **options):
    path = tmp_path / "paper.yaml"
    path.write_text(format_config({**FILE, **(changes or {})}))
    return Grid.read(path, **options)


def test_cells_have_the_settings_of_all_parts_of_the_file(tmp_path):
    change = {"task": "pole", "algorithm": "small", "settings": {"num_envs": 4, "learner": {"gamma": 0.5}}}
    grid = read(tmp_path, {"cells": [change]})
    ppo, small = grid.cells
    assert (str(ppo), ppo.command, ppo.total_steps) == ("ppo on pole", "train", 2048)
    assert (ppo.settings["algorithm"], ppo.settings["num_envs"], ppo.settings["eval_episodes"]) == ("ppo", 8, 4)
    assert ppo.settings["logger"] == ["csv"]
    assert ppo.settings["checkpoint_interval"] == 512 // (8 * ppo.settings["learner"]["rollout_length"])
    assert (small.settings["algorithm"], small.settings["num_envs"]) == ("ppo", 4)
    assert (small.settings["learner"]["hidden_sizes"], small.settings["learner"]["gamma"]) == ([8], 0.5)
    assert "seed" not in ppo.settings
    assert (list(grid.seeds), grid.evaluation.last_episodes) == ([0, 1], 40)


def test_skipped_cells_are_left_out_and_seeds_may_be_listed(tmp_path):
    grid = read(tmp_path, {"seeds": [3, 4, 5], "cells": [{"task": "pole", "algorithm": "ppo", "skip": True}]})
    assert [cell.algorithm for cell in grid.cells] == ["small"]
    assert grid.seeds == range(3, 6)


def test_opponents_of_a_task_are_those_of_its_evaluations(tmp_path):
    task = {"settings": {"env_id": "SimpleTag-v0"}, "opponents": "scripted"}
    assert read(tmp_path, {"tasks": {"tag": task}}).cells[0].settings["eval_opponents"] == "scripted"
    task["opponents"] = "cross_play"
    assert read(tmp_path, {"tasks": {"tag": task}}).cells[0].settings["eval_opponents"] is None
    with pytest.raises(ConfigError, match=r"tasks.tag: opponents: expected two algorithms or more for cross_play"):
        read(tmp_path, {"tasks": {"tag": task}, "algorithms": {"ppo": None}})


def test_cross_play_needs_agents_for_its_opponents(tmp_path):
    task = {"settings": {"env_id": "KuhnPoker-v0"}, "opponents": "cross_play"}
    grid = read(tmp_path, {"tasks": {"kuhn": task}})
    grid.check_evaluation(grid.cells[0])  # one policy plays one seat after the other
    task["settings"] = {"env_id": "SimpleSpread-v0"}
    grid = read(tmp_path, {"tasks": {"spread": task}})
    message = "opponents: all agents of SimpleSpread-v0 share one policy; leave it out, or train with sharing: agent"
    with pytest.raises(ConfigError, match=message):
        grid.check_evaluation(grid.cells[0])


def test_leagues_are_algorithms(tmp_path):
    psro = {"command": "league train", "iterations": 2, "oracle": "exact"}
    file = {"tasks": {"kuhn": {"settings": {"env_id": "KuhnPoker-v0"}}}, "algorithms": {"psro": psro}}
    (cell,) = read(tmp_path, file).cells
    assert "total_steps" not in cell.settings  # shared settings of trainings are not a league's
    assert (cell.command, cell.total_steps, cell.trains_seeds_at_once) == ("league train", 0, False)
    assert cell.settings["iterations"] == 2
    file["tasks"]["kuhn"]["opponents"] = "zoo:nobody"
    grid = read(tmp_path, file)
    with pytest.raises(ConfigError, match=r"psro on kuhn: .*nobody"):
        grid.check_evaluation(grid.cells[0])


def test_baselines_are_scores_of_other_programs(tmp_path):
    (tmp_path / "sb3.json").write_text(json.dumps({"pole": {"scores": [1.0, 2.5]}}))
    assert read(tmp_path, {"baselines": {"sb3": "sb3.json"}}).baselines == {"sb3": {"pole": [1.0, 2.5]}}
    (tmp_path / "sb3.json").write_text(json.dumps({"poles": {"scores": [1.0]}}))
    with pytest.raises(ConfigError, match=r"paper.yaml: baselines.sb3: .*: no task named 'poles'; did you mean pole"):
        read(tmp_path, {"baselines": {"sb3": "sb3.json"}})
    (tmp_path / "sb3.json").write_text(json.dumps({"pole": {"scores": []}}))
    with pytest.raises(ConfigError, match=r'pole: expected \{"scores": \[numbers, one for every seed\]\}'):
        read(tmp_path, {"baselines": {"sb3": "sb3.json"}})


def test_threshold_is_the_mean_of_a_baseline(tmp_path):
    (tmp_path / "sb3.json").write_text(json.dumps({"pole": {"scores": [1.0, 2.5, 4.0]}}))
    changes = {"baselines": {"sb3": "sb3.json"}, "tasks": {"pole": {**POLE, "threshold": {"baseline": "sb3"}}}}
    assert read(tmp_path, changes).tasks["pole"].threshold == 2.5
    (tmp_path / "sb3.json").write_text("{}")
    with pytest.raises(
        ConfigError, match=r"tasks.pole: threshold: expected a number, or \{baseline: NAME\} of a baseline"
    ):
        read(tmp_path, changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": {}}, "paper.yaml: no setting named 'task'; did you mean tasks?"),
        ({"tasks": {}}, "tasks: expected a mapping with one entry or more, got none"),
        ({"algorithms": {"ppoo": None}}, "ppoo on pole: .*did you mean ppo"),
        ({"algorithms": {"ppo": {"learner": {"clip": 0.1}}}}, "ppo on pole: no setting named 'learner.clip'"),
        ({"algorithms": {"a/b": {"algorithm": "ppo"}}}, "algorithms: 'a/b': expected letters, digits"),
        ({"algorithms": {"ppo": {"command": "tune"}}}, "command: expected train or league train, got 'tune'"),
        ({"algorithms": {"ppo": {"seed": 3}}}, "ppo on pole: seed: expected none, because the experiment chooses it"),
        ({"settings": {"eval_episodes": 3}}, "ppo on pole: eval_episodes: expected none, because the experiment"),
        ({"cells": [{"task": "pole", "algorithm": "ppo", "skip": "no"}]}, "skip: expected True or False, got 'no'"),
        ({"seeds": [1, 3]}, r"seeds: expected their number or consecutive seeds such as \[3, 4, 5\], got \[1, 3\]"),
        ({"seeds": 0}, "seeds: expected their number or consecutive seeds"),
        ({"evaluation": {"every": 0}}, "evaluation: every: expected an int >= 1, or None, got 0"),
        ({"evaluation": {"everi": 1}}, "no setting of evaluation named 'everi'; did you mean every?"),
        ({"tasks": {"pole": {"settings": {"env_id": "CartPol-v1"}}}}, "ppo on pole: .*did you mean CartPole-v1"),
        ({"tasks": {"pole": {**POLE, "bounds": [1, 0]}}}, "tasks.pole: bounds: expected a lower and a higher score"),
        ({"tasks": {"pole": {**POLE, "bounds": [1]}}}, "tasks.pole: bounds: expected a lower and a higher score"),
        (
            {"tasks": {"pole": {**POLE, "threshold": {"baseline": "sb3"}}}},
            "tasks.pole: threshold: expected a number, or",
        ),
        ({"seeds": 1, "tasks": {"pole": {**POLE, "partners": "cross_play"}}}, "partners: expected two seeds or more"),
        ({"tasks": {"pole": {**POLE, "partners": "all"}}}, "tasks.pole: partners: expected 'cross_play', or None, got"),
        ({"tasks": {"pole": {"settings": "CartPole-v1"}}}, "tasks.pole.settings: expected a mapping of names"),
        ({"cells": [{"task": "pole", "algorithm": "dqn"}]}, r"cells\[0\]: no algorithm named 'dqn'"),
        ({"cells": [{"task": "pole", "algorithm": "ppo"}] * 2}, r"cells\[1\]: expected every cell once"),
        ({"tasks": {"tag": {**TAG, "opponents": "zoo:nobody"}}}, "ppo on tag: .*nobody"),
        (
            {"tasks": {"tag": {**TAG, "opponents": "out/runs/tag/dqn/seed-0"}}},
            "ppo on tag: .*dqn/seed-0: expected a ch",
        ),
        ({"algorithms": {"own": {"algorithm": "own_learner:Own"}}}, "add --allow-import own_learner if you trust it"),
    ],
)
def test_errors_of_files_are_one_line(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message) as error:
        read(tmp_path, changes)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "paper.yaml"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"tasks": {"pole": {**POLE, "score": "eval/agnt/return"}}},
            "score: .*'eval/agnt/return'; did you mean eval/agent",
        ),
        (
            {"tasks": {"pole": {**POLE, "opponents": "cross_play"}}},
            "opponents: all agents of CartPole-v1 share one policy",
        ),
        (
            {"tasks": {"pole": {**POLE, "partners": "cross_play"}}},
            "partners: expected a team of agents, got CartPole-v1; leave it out",
        ),
        ({"tasks": {"tag": {**TAG, "partners": "cross_play"}}}, "partners: expected a team of agents"),
        ({"tasks": {"four": {"settings": {"env_id": "ConnectFour-v0"}, "partners": "cross_play"}}}, "expected a team"),
        ({"tasks": {"pole": {**POLE, "opponents": "scripted"}}}, "all agents of CartPole-v1 share one policy"),
        (
            {"tasks": {"tag": {**TAG, "opponents": "zoo:cartpole-ppo"}}},
            "env_id: expected SimpleTag-v0, got CartPole-v1",
        ),
    ],
)
def test_opponents_and_scores_are_checked_before_anything_trains(tmp_path, changes, message):
    read(tmp_path, changes)
    with pytest.raises(ConfigError, match=message) as error:
        Experiment(tmp_path / "paper.yaml", tmp_path / "out").run()
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_example_file_is_valid_and_not_overwritten(tmp_path, capsys):
    path = tmp_path / "new.yaml"
    assert main(["experiment", "new", str(path)]) == 0
    assert main(["experiment", "run", str(path), "--print-config"]) == 0
    assert "ppo-gru on spread:" in capsys.readouterr().out
    assert main(["experiment", "new", str(path)]) == 2
    assert "exists already; choose another name" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "executor"), [("--num-workers=2", "process"), ("--ray-address=auto", "ray")])
def test_options_of_another_executor_are_refused(option, executor, capsys):
    assert main(["experiment", "run", "paper.yaml", option]) == 2
    name = option.partition("=")[0]
    message = f"has no effect with --executor = 'local'; set --executor = '{executor}', or leave {name} out"
    assert message in capsys.readouterr().err
