"""The study of leagues and joint PPO: budgets, exploitability, cross-play, resuming, and its section of the page."""

import json
from dataclasses import replace

import pytest
import torch

from benchmarks.league import cross_play, study, study_methods, study_settings
from benchmarks.league.cross_play import Side
from benchmarks.league.study_settings import STUDIES, Method, Study
from benchmarks.pages import study_section
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
    cross_play_episodes=20,
    methods={
        "PSRO": Method(
            "psro",
            {"joint_share": 0.5, "joint_snapshots": 2, "iterations": 2, "episodes_per_matchup": 10},
            seeds=2,
            population=True,
        ),
        "AlphaStar": Method("alphastar", {**LEAGUE, "exploiter_share": 0.25}, seeds=2, population=True),
        "joint PPO": Method("joint_ppo", {"num_snapshots": 4}, seeds=2),
        "joint PPO, equal samples": Method("joint_ppo", share_of_steps=0.5, measured=False, seeds=2),
        "joint PPO, equal time": Method("joint_ppo", as_long_as="PSRO", measured=False, seeds=2),
        "fictitious": Method("self_play", {**LEAGUE, "opponents": "uniform", "latest": 0.2}, seeds=1, tried="mixing"),
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


def test_study_trains_measures_and_compares_all_methods(files):
    study.run_study("small", ["PSRO", "joint PPO"], [1])  # in parts
    study.run_study("small", list(SMALL.methods), range(2))
    result = json.loads((files / "small.json").read_text())
    runs = {method: [found[seed] for seed in sorted(found)] for method, found in result["runs"].items()}
    assert {method: len(found) for method, found in runs.items()} == {
        name: method.seeds for name, method in SMALL.methods.items()
    }
    for name in ("PSRO", "AlphaStar", "joint PPO", "fictitious"):
        for run in runs[name]:
            assert 2_048 <= run["steps"] <= 1.2 * 2_048
            assert all(0 < side["nash_conv"] < 4 for side in run["sides"].values())
    for run in runs["joint PPO, equal samples"]:
        assert run["steps"] == 1_024
        assert "nash_conv" not in run["sides"]["last policy"]
    for seed, run in enumerate(runs["joint PPO, equal time"]):
        own, psro = runs["joint PPO"][seed], runs["PSRO"][seed]
        wanted = own["steps"] * psro["processor_seconds"] / own["processor_seconds"]
        assert wanted <= run["steps"] + 1 <= wanted + 34  # whole rollouts
    assert set(runs["joint PPO"][0]["sides"]) == {"last policy", "average policy"}
    assert runs["joint PPO"][0]["sides"]["average policy"]["policies"] == {"player_0": 4, "player_1": 4}
    returns = result["cross_play"]["returns"]
    assert set(returns["PSRO"]) == {
        f"joint PPO{each}"
        for each in (", last policy", ", average policy", ", equal samples, last policy", ", equal time, last policy")
    }
    text = "\n".join(study_section.section("small", result))
    assert text.count("\n| ") >= 13
    assert "mixing" in text
    assert "c0ffee" in text
    again = (files / "small.json").read_text()
    study.run_study("small", list(SMALL.methods), range(2))  # trains nothing
    assert json.loads((files / "small.json").read_text())["runs"] == json.loads(again)["runs"]


def test_saved_sides_play_the_same(files):
    side = study_methods.joint_ppo(SMALL.game(), 512, 0, {"num_snapshots": 2}, TINY).sides["average policy"]
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
    found = study.measure(tag, side, 0)
    assert found["nash_conv"] == pytest.approx(sum(gain for _, _, gain in found["seats"].values()))


def test_cross_play_weighs_policies():
    """A mixture that plays paper in three of four games earns that much against rock."""
    game = Game.of("RockPaperScissors-v0", {"num_repetitions": 1}, shared=False)
    one = torch.ones(1).double()
    rock = Side({role: [Always(0)] for role in game.roles}, dict.fromkeys(game.roles, one))
    mixed = Side(
        {role: [Always(0), Always(1)] for role in game.roles},
        dict.fromkeys(game.roles, torch.tensor([0.25, 0.75]).double()),
    )
    found = cross_play.cross_play(game, [rock, mixed], [(0, 0), (0, 1), (1, 0)], episodes=4_000)
    assert found.mean[0].tolist() == [0.0, 0.0]
    assert not found.error[0].any()
    for pair, sign in ((1, -1.0), (2, 1.0)):
        assert float(found.error[pair, 0]) == pytest.approx((0.75 * 0.25 / 4_000) ** 0.5, rel=0.05)
        assert float(found.mean[pair, 0]) == pytest.approx(0.75 * sign, abs=4 * float(found.error[pair, 0]))
        assert float(found.mean[pair, 1]) == -float(found.mean[pair, 0])


def test_mixture_drops_policies_of_tiny_probability():
    game = Game.of("KuhnPoker-v0")
    population = {role: [RandomPolicy.of(game, role), Always(0)] for role in game.roles}
    marginals = [torch.tensor([0.999, 0.001]), torch.tensor([0.5, 0.5])]
    side = Side.mixture(population, [each.double() for each in marginals])
    assert [len(side.policies[role]) for role in game.roles] == [1, 2]
    assert [float(side.weights[role].sum()) for role in game.roles] == [1.0, 1.0]


def recorded(psro, joint, returns):
    """Return results with these values of NashConv, and of the mixture minus the baseline in each seat."""
    runs = {
        "PSRO": {
            str(seed): {"sides": {"": {"nash_conv": value, "policies": {"a": 1, "b": 1}}}}
            for seed, value in enumerate(psro)
        },
        "joint PPO": {
            str(seed): {"sides": {"last policy": {"nash_conv": value, "policies": {"a": 1, "b": 1}}}}
            for seed, value in enumerate(joint)
        },
    }
    own = torch.stack([returns[0].double(), torch.zeros(len(joint), len(psro)).T.double()])
    other = torch.stack([torch.zeros(len(joint), len(psro)).double(), returns[1].T.double()])
    table = {"PSRO": {"joint PPO, last policy": own.tolist()}, "joint PPO, last policy": {"PSRO": other.tolist()}}
    methods = {"PSRO": {"population": True, "tried": ""}, "joint PPO": {"population": False, "tried": ""}}
    return {"runs": runs, "settings": {"methods": methods}, "cross_play": {"returns": table, "episodes": 1}}


def test_claims_need_intervals_apart_and_no_loss_in_either_seat():
    better, worse = torch.full((3, 3), 2.0), torch.full((3, 3), -2.0)
    found = study_section.claims(recorded([1.0, 1.1, 0.9], [2.0, 2.1, 1.9], (better, worse)))["PSRO"]
    assert found == {"less exploitable than its last policy": True, "not worse as a": True, "not worse as b": False}
    wide = study_section.claims(recorded([1.0, 1.1, 0.9], [2.0, 4.1, 1.0], (worse, better)))["PSRO"]
    assert wide == {"less exploitable than its last policy": False, "not worse as a": False, "not worse as b": True}
    reverse = study_section.claims(recorded([3.0, 3.1, 2.9], [2.0, 2.1, 1.9], (better, better)))["PSRO"]
    assert not reverse["less exploitable than its last policy"]


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
    """The leagues run for minutes; their configurations are made here, and their steps are those of the study."""
    made, found = [], STUDIES[name]
    monkeypatch.setattr(study_methods, "open_run", lambda path, game, algorithm, config: made.append(config) or 1 / 0)
    game = found.game()
    for method in found.methods.values():
        if method.kind != "joint_ppo":
            with pytest.raises(ZeroDivisionError):
                study_methods.train_method(method.kind, game, found.steps, 0, method.settings, found.overrides())
    for config in made:
        study_methods.training(game, "cpu", config.train_overrides)


def test_pages_name_every_study():
    assert set(study_section.TITLES) == set(study_settings.STUDIES)
