"""Options of leagues that take "module:NAME": meta-solvers, variants, oracles, weightings and callbacks."""

import os
import sys

import pytest
from messages import refused
from named_objects import mine  # noqa: F401

from gpu_envs.cli import main

EXACT = ["KuhnPoker-v0", "--oracle", "exact", "--payoff-estimation", "exact", "--iterations", "2", "--run-dir", "run"]
ALLOW = ["--allow-import", "mine"]
SELF_PLAY = ["RockPaperScissors-v0", "--algorithm", "self_play", "--rules.opponents", "pfsp", "--run-dir", "run"]
SELF_PLAY += ["--iterations", "2", "--steps", "32", "--rules.freeze-every", "1", "--episodes-per-matchup", "4"]
SELF_PLAY += ["--train-overrides=num_envs=8", "--train-overrides=learner.rollout_length=4"]
SELF_PLAY += ["--train-overrides=learner.num_minibatches=1"]

pytestmark = pytest.mark.usefixtures("mine")


def run(*argv):
    return main(["league", *argv])


def test_meta_solver_of_the_working_folder_serves_the_run_and_its_commands(tmp_path, capsys):
    assert run("train", *EXACT, "--meta-solver", "mine:last", "--callback=mine:record") == 0
    rows = sys.modules["mine"].rows
    assert [row["iteration"] for row in rows] == [0, 1, 2]
    assert rows[-1]["meta_strategy"] == [[0.0, 0.0, 1.0]] * 2
    assert all(row["nash_conv"] > 0.0 for row in rows)
    out = capsys.readouterr().out
    assert "gpu-envs league report run --allow-import mine\n" in out
    del sys.modules["mine"]
    assert run("report", "run") == 0, "the stored meta-strategy needs no import"
    assert "mine:last at iteration 2" in capsys.readouterr().out
    assert "mine" not in sys.modules
    resume = ["resume", "run", "--iterations", "3"]
    assert refused(capsys, "league", *resume).endswith("add --allow-import mine if you trust it")
    assert "mine" not in sys.modules
    assert run(*resume, *ALLOW) == 0
    assert [row["iteration"] for row in sys.modules["mine"].rows] == [3]


@pytest.mark.slow
def test_run_of_an_own_meta_solver_is_exploited_without_its_module(capsys):
    assert run("train", *EXACT, "--meta-solver", "mine:last") == 0
    del sys.modules["mine"]
    assert main(["exploit", "run", "--steps", "64", "--num-responses", "1", "--episodes", "16"]) == 0
    assert "mine" not in sys.modules


def test_variant_and_oracle_of_the_working_folder_run(capsys):
    kuhn = [word if word != "exact" else "mine:Again" for word in EXACT[:3]] + EXACT[3:]
    assert run("train", *kuhn, "--variant=mine:Announcing") == 0
    assert sys.modules["mine"].rows == [1, "player_0", "player_1", 2, "player_0", "player_1"]


def test_own_variant_may_read_the_settings_of_all_variants(capsys):
    assert run("train", "KuhnPoker-v0", "--variant=mine:Announcing", "--pipeline-depth=2", "--print-config") == 0
    assert "pipeline_depth: 2\n" in capsys.readouterr().out


def test_weighting_of_the_working_folder_selects_opponents(capsys):
    assert run("train", *SELF_PLAY, "--rules.weighting", "mine:newest", "--callback=mine:record") == 0
    assert [row["iteration"] for row in sys.modules["mine"].rows] == [0, 1, 2]


WORKERS = ["--executor", "process", "--num-workers", "1"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [[], WORKERS], ids=["local", "process"])
def test_network_of_the_working_folder_plays_in_a_league_and_its_viewer(workers, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    assert run("train", *SELF_PLAY, "--train-overrides=learner.network=mine:Net", *workers, *ALLOW) == 0
    capsys.readouterr()
    del sys.modules["mine"]
    resume = ["resume", "run", "--iterations", "3"]
    assert refused(capsys, "league", *resume).endswith("add --allow-import mine if you trust it")
    assert run(*resume, *workers, *ALLOW) == 0
    del sys.modules["mine"]
    assert main(["watch", "run", "--export", "page.html", *ALLOW]) == 0
    assert " rollouts\n" in capsys.readouterr().out
    assert main(["exploit", "run", "--steps", "64", "--num-responses", "1", "--episodes", "16", *ALLOW]) == 0


def test_file_names_objects_only_with_allow_import(tmp_path, capsys):
    (tmp_path / "a.yaml").write_text(
        "env_id: KuhnPoker-v0\nmeta_solver: mine:last\noracle: exact\npayoff_estimation: exact\niterations: 1\n"
        "run_dir: run\ncallback: [mine:record]\n"
    )
    line = refused(capsys, "league", "train", "--config", "a.yaml")
    assert line.endswith("add --allow-import mine if you trust it")
    assert "mine" not in sys.modules
    assert run("train", "--config", "a.yaml", *ALLOW) == 0
    assert len(sys.modules["mine"].rows) == 2


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (
            ["--meta-solver=mine:none"],
            "meta-solver 'mine:none': expected a function of (payoffs) named none in mine, got None",
        ),
        (["--meta-solver=mine:two_arguments"], "expected a function of (payoffs) named two_arguments in mine"),
        (["--meta-solver=mine:record"], "mine:record: expected a MetaStrategy or a list of 2 distributions"),
        (["--meta-solver=mine:one_seat"], "mine:one_seat: expected a MetaStrategy or a list of 2 distributions"),
        (["--meta-solver=mine:negative"], "seat 0: expected probabilities of shape (1,) that sum to 1, got [2.0]"),
        (["--meta-solver=mine:last", "--meta-solver-kwargs=x=1"], "mine:last: no setting 'x'; it takes none"),
        (["--meta-solver=nsh"], "--meta-solver: expected one of 'auto', 'uniform',"),
        (["--meta-solver=none_such:f"], "module 'none_such': No module named 'none_such'"),
        (
            ["--variant=mine:last"],
            "variant 'mine:last': expected a subclass of StandardVariant named last in mine, got",
        ),
        (
            ["--variant=mine:Announcing", "--asynchronous"],
            "asynchronous=True: expected variant='pipeline', got 'mine:Announcing'; leave it out",
        ),
        (
            ["--oracle=mine:Announcing"],
            "oracle 'mine:Announcing': expected a subclass of Oracle named Announcing in mine",
        ),
        (
            ["--callback=mine:number"],
            "callback 'mine:number': expected a function of (row) named number in mine, got 3",
        ),
    ],
)
def test_wrong_name_is_refused_in_one_line_without_a_folder(argv, words, tmp_path, capsys):
    assert words in refused(capsys, "league", "train", *EXACT, *argv)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "mine:two_arguments",
            "weighting 'mine:two_arguments': expected a function of (win_rates) named two_arguments",
        ),
        ("mine:too_many", "weighting 'mine:too_many': expected 1 numbers >= 0, got [1.0, 1.0]"),
        ("cubic", "weighting: expected one of 'variance', 'linear', 'linear_capped', 'squared', module:NAME"),
    ],
)
def test_wrong_weighting_is_refused_in_one_line(name, words, capsys):
    assert run("train", *SELF_PLAY, f"--rules.weighting={name}") == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
    assert words in line
