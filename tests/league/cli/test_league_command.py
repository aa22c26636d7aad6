"""`gpu-envs league`: training, resuming, and messages for wrong arguments."""

import json
from collections.abc import Iterator

import pytest
import torch
from psro_runs import contents

from gpu_envs.cli import main
from league.evaluation.tabular_game import TabularGame
from league.solvers import solve
from league.storage.database import DATABASE
from league.storage.run_store import RunStore
from trainers.storage.checkpoint import LEAGUE

EXACT = ["--oracle", "exact", "--payoff-estimation", "exact", "--meta-solver", "nash"]
TINY = [
    f"--train-overrides={setting}"
    for setting in ("num_envs=8", "learner.rollout_length=4", "learner.num_epochs=1", "learner.num_minibatches=1")
]
TINY += ["--num-threads", "1"]


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    num_threads = torch.get_num_threads()
    yield
    torch.set_num_threads(num_threads)


def run(argv, capsys):
    code = main(["league", *map(str, argv)])
    output = capsys.readouterr()
    return code, output.out, output.err


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
        assert {"best_nash_conv", "seconds", "episodes"} <= row.keys()


def test_finished_run_resumes_with_more_iterations(tmp_path, capsys):
    run(["train", "KuhnPoker-v0", *EXACT, "--iterations", 2, "--run-dir", tmp_path], capsys)
    code, out, _ = run(["resume", tmp_path, "--iterations", 3], capsys)
    assert code == 0
    assert "3 iterations" in out
    code, out, _ = run(["train", "KuhnPoker-v0", *EXACT, "--iterations", 4, "--run-dir", tmp_path], capsys)
    assert code == 0
    with RunStore.open(tmp_path, write=False) as store:
        assert sorted(store.iterations()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "algorithm", ["psro", "alphastar", "self_play", "fictitious_self_play", "pfsp", "pbt", "independent"]
)
def test_algorithms_train_on_the_command_line(algorithm, tmp_path, capsys):
    words = ["--env-arg", "num_repetitions=1", "--episodes-per-matchup", 10, "--iterations", 1, "--run-dir", tmp_path]
    words += TINY
    words += ["--train-overrides", "total_steps=64"] if algorithm == "psro" else ["--steps", 64]
    code, out, err = run(["train", "RockPaperScissors-v0", "--algorithm", algorithm, *words], capsys)
    assert code == 0, err
    assert "1 iterations" in out
    with RunStore.open(tmp_path, write=False) as store:
        assert len(store.populations["player"]) >= 2
        assert store.config["algorithm"] == algorithm
        if algorithm == "psro":
            return
        rows, small = store.iterations(), TabularGame.of(store.game)
        strategy = solve("nash", small.payoffs(store.populations))
        exact = small.nash_conv(store.populations, strategy.marginals)
        assert rows[1]["nash_conv"] == pytest.approx(exact, abs=1e-9)
        assert rows[1]["exploitability"] == pytest.approx(exact / 2, abs=1e-9)
        assert rows[1]["best_nash_conv"] == min(row["nash_conv"] for row in rows.values())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "league train: expected an environment, got none; name one, such as KuhnPoker-v0"),
        (["SimpleSpread-v0"], "SimpleSpread-v0: expected an environment with roles, got none"),
        (["KuhnPoker-v0", "--algorithm", "psr"], "no league algorithm named 'psr'; did you mean psro?"),
        (["KuhnPoker-v0", "--iterations", "-3"], "--iterations: expected an int >= 0, got -3"),
        (["KuhnPoker-v0", "--train-overrides", "num_env=3"], "no setting named 'num_env'; did you mean num_envs?"),
        (["KuhnPoker-v0", "--train-overrides", "num_envs=many"], "train_overrides: num_envs: expected int, got 'many'"),
        (["KuhnPoker-v0", "--algorithm", "alphastar", "--rules.main.count", "0"], "main.count: expected at least"),
        (["KuhnPoker-v0", "--meta-solver", "nas"], "--meta-solver: expected one of 'auto'"),
        (["KuhnPoker-v0", "--env-arg", "num_players=3", "--meta-solver", "nash"], "nash"),
        (["TicTacToe-v0", "--oracle", "exact", "--meta-solver", "nash"], "TicTacToe-v0"),
    ],
)
def test_wrong_arguments_print_one_line_and_leave_no_folder(words, message, tmp_path, capsys):
    code, _, err = run(["train", *words, "--run-dir", tmp_path / "run"], capsys)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_folder_of_another_run_is_refused(tmp_path, capsys):
    run(["train", "KuhnPoker-v0", *EXACT, "--iterations", 1, "--run-dir", tmp_path], capsys)
    for words, message in (
        (["KuhnPoker-v0", *EXACT[:-1], "uniform"], "expected meta_solver = 'nash' as recorded, got 'uniform'"),
        (["LeducPoker-v0", *EXACT], "expected a run of LeducPoker-v0 {}, got one of KuhnPoker-v0"),
        (["KuhnPoker-v0", "--algorithm", "pfsp"], "expected a run of pfsp, got one of psro"),
    ):
        code, _, err = run(["train", *words, "--run-dir", tmp_path], capsys)
        assert (code, message in err) == (2, True), err
    code, _, err = run(["resume", tmp_path / "nowhere"], capsys)
    assert code == 2
    assert "expected the folder of a league's run" in err


def test_render_plays_latest_or_named_policies(tmp_path, capsys):
    """The latest of every role, or those named; `gpu-envs render` leads there."""
    league = tmp_path / "league"
    run(["train", "KuhnPoker-v0", *EXACT, "--iterations", 2, "--run-dir", league], capsys)

    def render(*words):
        picture = tmp_path / "x.png"
        size = ["--device", "cpu", "--steps", 2, "--num-envs", 8, "--size", 32]
        argv = ["render", league, *size, "--output", picture, *words]
        code, out, err = run(argv, capsys)
        assert code == 0, err
        return out.splitlines(), picture.read_bytes()

    (playing, written), latest = render()
    assert playing == f"playing: player_0-2 as player_0, player_1-2 as player_1, of {league}"
    assert written == str(tmp_path / "x.png")
    assert render()[1] == latest
    (playing, _), first = render("--policy", "player_0=random", "--policy", "player_1=random")
    assert playing.startswith("playing: random as player_0, random as player_1")
    assert first != latest
    for words, message in (
        (["--policy", "dealer=random"], "no seat 'dealer' in KuhnPoker-v0; there are player_0, player_1"),
        (["--policy", "player_0=unknown"], "player_0: expected the name of one of 3 policies, got 'unknown'"),
    ):
        code, _, err = run(["render", league, *words], capsys)
        assert code != 0
        assert message in err
    assert main(["render", "KuhnPoker-v0", "--checkpoint", str(league)]) != 0
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert f"got a league's run; gpu-envs league render {league}" in message
    assert LEAGUE == DATABASE


def test_help_and_unknown_command_have_exit_codes(capsys):
    assert run([], capsys)[0] == 2
    code, out, _ = run(["--help"], capsys)
    assert (code, "gpu-envs league train" in out) == (0, True)
    code, _, err = run(["tain"], capsys)
    assert code == 2
    assert "no command named 'tain'" in err


def test_report_compares_two_runs(tmp_path, capsys):
    for name, iterations in (("weak", 0), ("strong", 3)):
        run(["train", "KuhnPoker-v0", *EXACT, "--iterations", iterations, "--run-dir", tmp_path / name], capsys)
    code, out, _ = run(["report", tmp_path / "strong", "--opponents", tmp_path / "weak"], capsys)
    assert code == 0
    line = out.splitlines()[-1]
    assert f"against {tmp_path / 'weak'}, above 0 if this run is stronger: 0." in line
    assert (tmp_path / "strong" / "report" / "report.html").stat().st_size > 10_000


# Sums over so many rows depend on the number of threads. `num_threads=0` leaves it to the process.
WIDE = [
    *("num_threads=0", "num_envs=1024", "learner.rollout_length=64", "total_steps=65536"),
    *("learner.num_minibatches=1", "learner.num_epochs=1", "learner.hidden_sizes=[32,32]"),
]


@pytest.mark.slow
def test_executors_give_equal_leagues_for_the_same_number_of_threads(tmp_path, capsys):
    words = ["train", "KuhnPoker-v0", "--iterations", 1, "--num-threads", 2]
    words += [f"--train-overrides={setting}" for setting in WIDE]
    for name, executor in (("local", []), ("process", ["--executor", "process", "--num-workers", 1])):
        code, _, err = run([*words, *executor, "--run-dir", tmp_path / name], capsys)
        assert code == 0, err
    local, process = (contents(tmp_path / name) for name in ("local", "process"))
    assert local == process


def test_league_uses_one_thread_by_default(tmp_path, capsys):
    words = ["train", "KuhnPoker-v0", *EXACT, "--iterations", 1, "--run-dir", tmp_path]
    torch.set_num_threads(2)
    run(words, capsys)
    assert torch.get_num_threads() == 1
    code, out, _ = run([*words, "--num-threads", 2], capsys)
    assert (code, torch.get_num_threads()) == (0, 2)
    assert "(--num-threads 2)" in out
    code, _, err = run([*words, "--num-threads", 0], capsys)
    assert (code, err) == (2, "gpu-envs: error: --num-threads 0: expected at least 1\n")
