"""The study of leagues and joint PPO: budgets, exploitability, cross-play, resuming, and its section of the page."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from benchmarks.league import cross_play, study, study_methods, study_section, study_settings
from benchmarks.league.cross_play import Side
from benchmarks.league.study_settings import STUDIES, Method, Study
from league.evaluation.tabular_game import TabularGame
from league.game import Game
from league.policies.random import RandomPolicy

TINY = {"num_envs": 8, "learner.rollout_length": 4, "learner.hidden_sizes": [8]}
LEAGUE = {"iterations": 2, "episodes_per_matchup": 10}
SMALL = Study(
    "KuhnPoker-v0",
    steps=2_048,
    budget=0,
    episodes=0,
    train=TINY,
    num_seeds=2,
    cross_play_episodes=20,
    methods={
        "PSRO": Method(
            "psro",
            {"joint_share": 0.5, "joint_snapshots": 2, "iterations": 2, "episodes_per_matchup": 10},
            population=True,
        ),
        "AlphaStar": Method("alphastar", {**LEAGUE, "exploiter_share": 0.1}, population=True),
        "joint PPO": Method("joint_ppo", {"num_snapshots": 4}),
        "joint PPO, equal samples": Method("joint_ppo", equal="samples"),
        "joint PPO, equal time": Method("joint_ppo", equal="time"),
        "fictitious": Method("self_play", {**LEAGUE, "opponents": "uniform", "latest": 0.2}, tried="mixing"),
    },
)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setitem(STUDIES, "small", SMALL)
    monkeypatch.setitem(study_section.TITLES, "small", "Small")
    monkeypatch.setattr(study, "study_file", lambda name: tmp_path / f"{name}.json")
    monkeypatch.setattr(study.provenance, "ROOT", tmp_path)
    monkeypatch.setattr(study.provenance, "commit", lambda: "c0ffee")
    return tmp_path


class Always:
    """Takes one action."""

    def __init__(self, choice: int) -> None:
        self.choice = choice

    def act(self, obs, mask=None, greedy=False, hidden_state=None):
        return torch.full(obs.shape[:-1], self.choice, device=obs.device)

    def initial_hidden_state(self, *shape):
        return None

    def seed(self, seed):
        pass


@pytest.mark.slow
def test_study_trains_measures_and_compares_all_methods(files):
    study.run_study("small", ["PSRO", "joint PPO"], [1])  # in parts
    study.run_study("small", list(SMALL.methods), range(2))
    result = json.loads((files / "small.json").read_text())
    runs = {
        method: [runs_by_seed[seed] for seed in sorted(runs_by_seed)] for method, runs_by_seed in result["runs"].items()
    }
    assert {method: len(runs_by_seed) for method, runs_by_seed in runs.items()} == {
        name: 1 if method.tried else 2 for name, method in SMALL.methods.items()
    }
    for name in ("PSRO", "AlphaStar", "joint PPO", "fictitious"):
        for run in runs[name]:
            assert 2_048 <= run["steps"] <= 1.2 * 2_048
            assert all(0 < side["nash_conv"] < 4 for side in run["sides"].values())
    for run, psro in zip(runs["joint PPO, equal samples"], runs["PSRO"], strict=True):
        assert psro["samples"] == psro["steps"] + 1_024  # both roles learn in the joint half
        assert 0 <= run["steps"] - psro["samples"] // 2 < 32  # whole rollouts
        assert run["samples"] == 2 * run["steps"]
    for seed, run in enumerate(runs["joint PPO, equal time"]):
        joint, psro = runs["joint PPO"][seed], runs["PSRO"][seed]
        expected = joint["steps"] * psro["processor_seconds"] / joint["processor_seconds"]
        assert expected <= run["steps"] + 1 <= expected + 34  # whole rollouts
    assert set(runs["joint PPO"][0]["sides"]) == {"last policy", "average policy"}
    assert runs["joint PPO"][0]["sides"]["average policy"]["policies"] == {"player_0": 4, "player_1": 4}
    returns = result["cross_play"]["returns"]
    sides = {
        f"joint PPO{suffix} policy" for suffix in (", last", ", average", ", equal samples, last", ", equal time, last")
    }
    assert set(returns["PSRO"]) == sides
    assert all(side in returns[side] for side in sides)  # the baseline against itself
    text = "\n".join(study_section.section("small", result))
    assert text.count("\n| ") >= 13
    assert "mixing" in text
    assert "c0ffee" in text
    content = (files / "small.json").read_text()
    study.run_study("small", list(SMALL.methods), range(2))
    assert (files / "small.json").read_text() == content  # nothing is trained or played again


@pytest.mark.slow
def test_runs_with_other_settings_are_repeated(files):
    study.run_study("small", ["PSRO"], [0])
    assert study.recorded_run("small", SMALL, "PSRO", 0) is not None
    other = replace(SMALL, steps=4_096)
    assert study.recorded_run("small", other, "PSRO", 0) is None
    changed = replace(SMALL.methods["PSRO"], settings={"iterations": 3})
    assert study.recorded_run("small", replace(SMALL, methods={"PSRO": changed}), "PSRO", 0) is None


def test_method_needs_the_runs_that_it_refers_to(files):
    with pytest.raises(SystemExit, match="expected recorded runs of PSRO and joint PPO; run them first"):
        study.run_study("small", ["joint PPO, equal time"], [0])


def test_recorded_training_without_its_policies_is_reported(files, monkeypatch):
    monkeypatch.setitem(STUDIES, "small", replace(SMALL, steps=256))
    study.run_study("small", ["joint PPO"], [0])
    shutil.rmtree(files / "out")
    with pytest.raises(SystemExit, match="expected the policies of a recorded training, got none"):
        study.run_study("small", ["joint PPO"], [0], remeasure=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--seeds", "99"], "--seeds: expected some of 0 to 9, got 99"), (["--methods", "foo"], "no method foo")],
)
def test_unknown_seeds_and_methods_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit):
        study.main(["leduc", *arguments])
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_policies_are_measured_again_without_training(files, monkeypatch):
    study.run_study("small", ["PSRO"], [0])
    monkeypatch.setattr(study, "train_method", None)
    monkeypatch.setattr(study, "measure", lambda *_: {"nash_conv": 7.0})
    study.run_study("small", ["PSRO"], [0], remeasure=True)
    assert study.recorded_run("small", SMALL, "PSRO", 0)["sides"][""]["nash_conv"] == 7.0


def test_saved_sides_play_the_same(files):
    side = study_methods.joint_ppo(SMALL.game(), 128, 0, {"num_snapshots": 2}, TINY).sides["average policy"]
    study._save(files / "side", side)
    loaded = study._load(files / "side")
    assert study.measure(SMALL, loaded, 0) == study.measure(SMALL, side, 0)


def test_exploitability_is_exact_in_small_games_and_learned_in_others():
    game = Game.of("KuhnPoker-v0")
    side = Side.uniform({role: [RandomPolicy.of(game, role)] for role in game.roles})
    assert study.measure(SMALL, side, 0)["nash_conv"] == pytest.approx(0.9167, abs=1e-4)
    tag = replace(SMALL, env_id="SimpleTag-v0", env={"max_cycles": 5}, budget=64, episodes=20)
    game = tag.game()
    assert TabularGame.of(game) is None
    side = Side.uniform({role: [RandomPolicy.of(game, role)] for role in game.roles})
    result = study.measure(tag, side, 0)
    assert result["nash_conv"] == pytest.approx(sum(max(gain, 0.0) for _, _, gain in result["seats"].values()))


def test_responses_start_from_the_latest_of_the_most_probable_policies(monkeypatch):
    """Snapshots have equal probabilities, and the first of them has hardly trained."""
    tag, arguments = replace(SMALL, env_id="SimpleTag-v0", env={"max_cycles": 5}, budget=64, episodes=20), {}
    side = study_methods.joint_ppo(tag.game(), 128, 0, {"num_snapshots": 3}, TINY).sides["average policy"]
    bound = SimpleNamespace(
        half_width=0.0, seconds=0.0, seats=[SimpleNamespace(seat="s", value=1, response=0, gain=-1)]
    )
    monkeypatch.setattr(study, "approximate_exploitability", lambda *_, **named: arguments.update(named) or bound)
    assert study.measure(tag, side, 0)["nash_conv"] == 0.0  # a seat can keep its mixture
    assert arguments["start"] == {role: policies[-1] for role, policies in side.policies.items()}


def test_cross_play_weighs_policies():
    """A mixture that plays paper in three of four games earns that much against rock."""
    game = Game.of("RockPaperScissors-v0", {"num_repetitions": 1}, shared=False)
    weight = torch.ones(1).double()
    rock = Side({role: [Always(0)] for role in game.roles}, dict.fromkeys(game.roles, weight))
    mixed = Side(
        {role: [Always(0), Always(1)] for role in game.roles},
        dict.fromkeys(game.roles, torch.tensor([0.25, 0.75]).double()),
    )
    payoffs = cross_play.cross_play(game, [rock, mixed], [(0, 0), (0, 1), (1, 0)], episodes=4_000)
    assert payoffs.mean[0].tolist() == [0.0, 0.0]
    assert not payoffs.error[0].any()
    for pair, sign in ((1, -1.0), (2, 1.0)):
        assert float(payoffs.error[pair, 0]) == pytest.approx((0.75 * 0.25 / 4_000) ** 0.5, rel=0.05)
        assert float(payoffs.mean[pair, 0]) == pytest.approx(0.75 * sign, abs=4 * float(payoffs.error[pair, 0]))
        assert float(payoffs.mean[pair, 1]) == -float(payoffs.mean[pair, 0])


def test_mixture_drops_policies_of_tiny_probability():
    game = Game.of("KuhnPoker-v0")
    population = {role: [RandomPolicy.of(game, role), Always(0)] for role in game.roles}
    marginals = [torch.tensor([0.999, 0.001]), torch.tensor([0.5, 0.5])]
    side = Side.mixture(population, [marginal.double() for marginal in marginals])
    assert [len(side.policies[role]) for role in game.roles] == [1, 2]
    assert [float(side.weights[role].sum()) for role in game.roles] == [1.0, 1.0]


def recorded(psro, joint, ahead):
    """Return results with these values of NashConv, and of what the mixture earns more than joint PPO in each seat."""
    runs = {
        name: {
            str(seed): {"sides": {side: {"nash_conv": value, "policies": {"a": 1, "b": 1}}}}
            for seed, value in enumerate(values)
        }
        for name, side, values in (("PSRO", "", psro), ("joint PPO", "last policy", joint))
    }
    base = torch.arange(9.0).reshape(3, 3)  # of each pair of joint PPO's seeds
    base.fill_diagonal_(1000.0)  # its own partner does not count
    opposite = [(base.sum(axis) - 1000.0) / 2 for axis in (0, 1)]  # by seed of the seat opposite
    first = (opposite[0] + ahead[0]).expand(3, 3)
    second = (opposite[1] + ahead[1])[:, None].expand(3, 3)
    table = {
        "PSRO": {"joint PPO, last policy": [first.tolist(), torch.zeros(3, 3).tolist()]},
        "joint PPO, last policy": {
            "PSRO": [torch.zeros(3, 3).tolist(), second.tolist()],
            "joint PPO, last policy": [base.tolist(), base.tolist()],
        },
    }
    methods = {"PSRO": {"population": True, "tried": ""}, "joint PPO": {"population": False, "tried": ""}}
    return {"runs": runs, "settings": {"methods": methods}, "cross_play": {"returns": table, "episodes": 1}}


def test_seats_are_compared_against_the_same_opponents():
    result = recorded([1.0] * 3, [2.0] * 3, (2.0, -3.0))
    for seat, ahead in enumerate((2.0, -3.0)):
        assert study_section.difference(result, "PSRO", "joint PPO, last policy", seat) == [pytest.approx(ahead), 0.0]


def test_claims_need_intervals_apart_and_no_loss_in_either_seat():
    texts = ["than its last policy", "not shown worse as a", "not shown worse as b"]
    for psro, joint, ahead, expected in (
        ([1.0, 1.1, 0.9], [2.0, 2.1, 1.9], (2.0, -2.0), [True, True, False]),
        ([1.0, 1.1, 0.9], [2.0, 4.1, 1.0], (-2.0, 2.0), [False, False, True]),  # wide intervals
        ([3.0, 3.1, 2.9], [2.0, 2.1, 1.9], (2.0, 2.0), [False, True, True]),
    ):
        assert study_section.claims(recorded(psro, joint, ahead))["PSRO"] == dict(zip(texts, expected, strict=True))


def test_interval_over_seeds_has_its_nominal_coverage():
    """Draw tables with effects of rows, columns and cells; 95 % intervals must miss the true mean in at most 5 %."""
    random = torch.Generator().manual_seed(3)
    missed = 0
    for _ in range(2_000):
        rows, columns, cells = (torch.randn(shape, generator=random) for shape in ((5, 1), (1, 5), (5, 5)))
        mean, half = study_section.over_seeds(7 + 3 * rows + 2 * columns + cells)
        missed += abs(mean - 7) > half
    assert 20 <= missed <= 110  # t has the degrees of one margin, which is on the safe side
    mean, half = study_section.over_seeds(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert (mean, half) == (2.5, pytest.approx(12.706 * (2.0 / 2 + 0.5 / 2) ** 0.5, rel=1e-4))


@pytest.mark.parametrize("name", STUDIES)
def test_settings_of_a_study_fit_its_game(name, monkeypatch):
    """The leagues run for minutes; their configurations are made here."""
    configs, definition = [], STUDIES[name]
    monkeypatch.setattr(
        study_methods, "open_run", lambda path, game, algorithm, config: configs.append(config) or 1 / 0
    )
    game = definition.game()
    for method in definition.methods.values():
        if method.kind != "joint_ppo":
            with pytest.raises(ZeroDivisionError):
                study_methods.train_method(
                    method.kind, game, definition.steps, 0, method.settings, definition.overrides()
                )
    methods = [method for method in definition.methods.values() if method.kind != "joint_ppo"]
    for config, method in zip(configs, methods, strict=True):
        train = study_methods.training(game, "cpu", config.train_overrides)
        rollout = train.rollout_steps
        if method.kind == "psro":
            steps, parts = config.joint_steps + 2 * config.iterations * train.total_steps, 1 + 2 * config.iterations
        else:
            steps, parts = config.iterations * config.steps, config.iterations
            if method.kind == "alphastar" and method.settings["exploiters"]:  # two kinds, of two roles
                steps *= 1 + 4 * round(0.06 * definition.steps / parts / rollout) * rollout / config.steps
        assert abs(steps - definition.steps) <= 2 * parts * rollout


def test_pages_name_every_study():
    assert set(study_section.TITLES) == set(study_settings.STUDIES)
