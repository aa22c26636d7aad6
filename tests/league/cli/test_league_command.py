"""`gpu-envs league`: training, going on, and what it says to wrong words."""

import json
from collections.abc import Iterator

import pytest
import torch
from psro_runs import contents

from gpu_envs.cli import main
from league.database import DATABASE
from league.small import Small
from league.solvers import solve
from league.store import Store
from trainers.checkpoint import LEAGUE

EXACT = ["--oracle", "exact", "--payoffs", "exact", "--meta-solver", "nash"]
TINY = ["--train", "num_envs=8", "--train", "learner.rollout_length=4", "--threads", "1"]


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def run(argv, capsys):
    code = main(["league", *map(str, argv)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_exact_psro_prints_the_exploitability_table_and_writes_the_summary(tmp_path, capsys):
    code, out, _ = run(["train", "KuhnPoker-v0", *EXACT, "--iterations", 6, "--run-dir", tmp_path], capsys)
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert ["0", "1/1", "0.9167", "0.4583", "0.9167", "0"] in [line[:6] for line in lines]
    assert [line[1:] for line in lines[-2:]] == [["league", "report", str(tmp_path)], ["watch", str(tmp_path)]]
    summary = json.loads((tmp_path / "summary.json").read_text())
    rows = summary["iterations"]
    assert [row["iteration"] for row in rows] == list(range(7))
    assert rows[6]["nash_conv"] < 1e-6
    for row in rows:
        assert row["exploitability"] == pytest.approx(row["nash_conv"] / 2)
        assert {"best_so_far", "seconds", "episodes"} <= row.keys()


def test_a_run_goes_on_and_can_be_made_longer(tmp_path, capsys):
    run(["train", "KuhnPoker-v0", *EXACT, "--iterations", 2, "--run-dir", tmp_path], capsys)
    code, out, _ = run(["resume", tmp_path, "--iterations", 3], capsys)
    assert code == 0
    assert "3 iterations" in out
    code, out, _ = run(["train", "KuhnPoker-v0", *EXACT, "--iterations", 4, "--run-dir", tmp_path], capsys)
    assert code == 0
    with Store.open(tmp_path, write=False) as store:
        assert sorted(store.iterations()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("algorithm", ["psro", "alphastar", "self_play", "fictitious", "pfsp", "pbt", "independent"])
def test_every_algorithm_learns_on_the_command_line(algorithm, tmp_path, capsys):
    words = ["--env", "num_steps=1", "--episodes", 10, "--iterations", 1, "--run-dir", tmp_path, *TINY]
    words += ["--train", "total_steps=64"] if algorithm == "psro" else ["--steps", 64]
    code, out, err = run(["train", "RockPaperScissors-v0", "--algorithm", algorithm, *words], capsys)
    assert code == 0, err
    assert "1 iterations" in out
    with Store.open(tmp_path, write=False) as store:
        assert len(store.populations["player"]) >= 2
        assert store.config["algorithm"] == algorithm
        if algorithm == "psro":
            return
        rows, small = store.iterations(), Small.of(store.game)
        strategy = solve("nash", small.payoffs(store.populations))
        exact = small.nash_conv(store.populations, strategy.marginals)
        assert rows[1]["nash_conv"] == pytest.approx(exact, abs=1e-9)
        assert rows[1]["exploitability"] == pytest.approx(exact / 2, abs=1e-9)
        assert rows[1]["best_so_far"] == min(row["nash_conv"] for row in rows.values())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "league train: expected an environment, got none; name one, such as KuhnPoker-v0"),
        (["SimpleSpread-v0"], "SimpleSpread-v0: declares no roles, nobody plays against anybody"),
        (["KuhnPoker-v0", "--algorithm", "psr"], "algorithm = 'psr': no league of this name; did you mean psro?"),
        (["KuhnPoker-v0", "--iterations", "-3"], "iterations = -3: expected >= 0"),
        (["KuhnPoker-v0", "--train", "num_env=3"], "train: no setting num_env; there are"),
        (["KuhnPoker-v0", "--train", "num_envs=many"], "train: num_envs: expected int, got 'many'"),
        (["KuhnPoker-v0", "--train", "learner.entropy=-1"], "learner.entropy = -1: expected >= 0"),
        (["KuhnPoker-v0", "--algorithm", "alphastar", "--rules.main.count", "0"], "main.count = 0: expected at least"),
        (["KuhnPoker-v0", "--meta-solver", "nas"], "meta_solver = 'nas': expected one of auto"),
        (
            ["KuhnPoker-v0", "--env", "num_players=3", "--meta-solver", "nash"],
            "nash",
        ),
        (["TicTacToe-v0", "--oracle", "exact", "--meta-solver", "nash"], "TicTacToe-v0"),
    ],
)
def test_wrong_words_are_one_line_and_leave_nothing_behind(words, said, tmp_path, capsys):
    code, _, err = run(["train", *words, "--run-dir", tmp_path / "run"], capsys)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_another_run_in_the_folder_is_left_alone(tmp_path, capsys):
    run(["train", "KuhnPoker-v0", *EXACT, "--iterations", 1, "--run-dir", tmp_path], capsys)
    for words, said in (
        (["KuhnPoker-v0", *EXACT[:-1], "uniform"], "began with meta_solver = 'nash', got 'uniform'"),
        (["LeducPoker-v0", *EXACT], "holds a run of another game, KuhnPoker-v0"),
        (["KuhnPoker-v0", "--algorithm", "pfsp"], "holds a run of psro, expected pfsp"),
    ):
        code, _, err = run(["train", *words, "--run-dir", tmp_path], capsys)
        assert (code, said in err) == (2, True), err
    code, _, err = run(["resume", tmp_path / "nowhere"], capsys)
    assert code == 2
    assert "expected the folder of a league's run" in err


def test_a_second_process_is_refused(tmp_path, capsys):
    run(["train", "KuhnPoker-v0", *EXACT, "--iterations", 1, "--run-dir", tmp_path], capsys)
    with Store.open(tmp_path):
        code, _, err = run(["resume", tmp_path], capsys)
    assert code == 2
    assert str(tmp_path) in err
    assert err.count("\n") == 1


def test_policies_of_a_league_are_seen_playing(tmp_path, capsys):
    """The latest of every role, or those named; `gpu-envs render` leads there."""
    league = tmp_path / "league"
    run(["train", "KuhnPoker-v0", *EXACT, "--iterations", 2, "--run-dir", league], capsys)

    def seen(*words):
        picture = tmp_path / "x.png"
        argv = [
            "render",
            league,
            "--device",
            "cpu",
            "--steps",
            2,
            "--worlds",
            8,
            "--size",
            32,
            "--out",
            picture,
            *words,
        ]
        code, out, err = run(argv, capsys)
        assert code == 0, err
        return out.splitlines(), picture.read_bytes()

    (playing, written), latest = seen()
    assert playing == f"playing: player_0-2 as player_0, player_1-2 as player_1, of {league}"
    assert written == str(tmp_path / "x.png")
    assert seen()[1] == latest
    (playing, _), first = seen("--policy", "player_0=random", "--policy", "player_1=random")
    assert playing.startswith("playing: random as player_0, random as player_1")
    assert first != latest
    for words, said in (
        (["--policy", "dealer=random"], "no seat 'dealer' in KuhnPoker-v0; there are player_0, player_1"),
        (["--policy", "player_0=nobody"], "player_0: expected the name of one of 3 policies, got 'nobody'"),
    ):
        code, _, err = run(["render", league, *words], capsys)
        assert code != 0
        assert said in err
    assert main(["render", "KuhnPoker-v0", "--checkpoint", str(league)]) != 0
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"got a league's run; gpu-envs league render {league}" in said
    assert LEAGUE == DATABASE


def test_help_is_help(capsys):
    assert run([], capsys)[0] == 2
    code, out, _ = run(["--help"], capsys)
    assert (code, "gpu-envs league train" in out) == (0, True)
    code, _, err = run(["tain"], capsys)
    assert code == 2
    assert "no command named 'tain'" in err


def test_two_runs_are_compared(tmp_path, capsys):
    for name, iterations in (("weak", 0), ("strong", 6)):
        run(["train", "KuhnPoker-v0", *EXACT, "--iterations", iterations, "--run-dir", tmp_path / name], capsys)
    code, out, _ = run(["report", tmp_path / "strong", "--against", tmp_path / "weak"], capsys)
    assert code == 0
    line = out.splitlines()[-1]
    assert f"against {tmp_path / 'weak'}, above 0 if this run is stronger: 0." in line
    assert (tmp_path / "strong" / "report" / "report.html").stat().st_size > 10_000


# Sums over so many rows depend on the number of threads. `threads=0` leaves it to the process.
WIDE = [f"--train={each}" for each in ("threads=0", "num_envs=1024", "learner.rollout_length=64", "total_steps=65536")]
WIDE += ["--train=learner.minibatches=1", "--train=learner.epochs=1", "--train=learner.hidden=[32,32]"]


@pytest.mark.slow
def test_executors_give_equal_leagues_for_the_same_number_of_threads(tmp_path, capsys):
    words = ["train", "KuhnPoker-v0", "--iterations", 1, "--threads", 2, *WIDE]
    for name, executor in (("local", []), ("process", ["--executor", "process", "--workers", 1])):
        code, _, err = run([*words, *executor, "--run-dir", tmp_path / name], capsys)
        assert code == 0, err
    local, process = (contents(tmp_path / name) for name in ("local", "process"))
    assert local == process


def test_threads_of_a_league_are_one_unless_the_command_line_says_so(tmp_path, capsys):
    words = ["train", "KuhnPoker-v0", *EXACT, "--iterations", 1, "--run-dir", tmp_path]
    torch.set_num_threads(2)
    run(words, capsys)
    assert torch.get_num_threads() == 1
    code, out, _ = run([*words, "--threads", 2], capsys)
    assert (code, torch.get_num_threads()) == (0, 2)
    assert "(--threads 2)" in out
    code, _, err = run([*words, "--threads", 0], capsys)
    assert (code, err) == (2, "gpu-envs: error: --threads 0: expected at least 1\n")
