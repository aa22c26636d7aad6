"""The shows of the league: the page is what was recorded, and what is compared is compared rightly."""

import json
import sys

import pytest
import torch

from benchmarks.league import cross_play, demonstrations, population_curves, self_play_curves
from benchmarks.league.cross_play import Side
from benchmarks.pages import league_page, population_curves_section, self_play_section
from league.game import Game
from league.policies.random import RandomPolicy
from league.psro.config import PSROConfig
from league.storage import presets
from league.storage.presets import psro_preset


def test_page_equals_the_recorded_results(monkeypatch, tmp_path):
    written, picture = league_page.PAGE.read_text(encoding="utf-8"), league_page.PICTURE
    assert picture.stat().st_size < 500_000
    monkeypatch.setattr(league_page, "PAGE", tmp_path / "league.md")
    monkeypatch.setattr(league_page, "PICTURE", tmp_path / "curves.png")
    monkeypatch.setattr(population_curves_section, "PICTURE", tmp_path / "population_curves.png")
    monkeypatch.setattr(self_play_section, "PICTURE", tmp_path / "self_play_curves.png")
    claims = {name: show.claim for name, show in demonstrations.SHOWS.items()}
    league_page.write(demonstrations.recorded(), claims)
    again = "python -m benchmarks.league.demonstrations --write"
    assert (tmp_path / "league.md").read_text(encoding="utf-8") == written, again


def test_recorded_settings_equal_those_of_the_demonstration():
    for name, result in demonstrations.recorded().items():
        wanted = json.loads(json.dumps(dict(demonstrations.SHOWS[name].settings)))
        assert result["settings"] == wanted, f"python -m benchmarks.league.demonstrations {name}"


def test_first_time_below():
    curve = [[0.5, 0.9], [2.0, 0.1], [3.0, 0.4]]
    assert demonstrations.reach(curve, 0.1) == 2.0
    assert demonstrations.reach(curve, 0.05) is None


RISING = [[0.0, 2.0], [0.1, 3.0], [0.2, 1.0], [0.3, 0.1]]
SHORT = {"total_steps": 512, "num_envs": 16, "learner.rollout_length": 8, "learner.hidden_sizes": [8]}
FALLING = [[0.0, 2.0], [0.1, 1.0], [0.2, 0.05]]


def test_claims_about_population_curves_are_computed_from_the_curves():
    curves = {"PSRO": RISING, "anytime PSRO": FALLING, "SP-PSRO": FALLING, "XDO": FALLING}
    met = list(population_curves.verdicts(curves, below=1.0, factor=2.0, few=1).values())
    assert met == [True, True, True, True]
    met = list(population_curves.verdicts(curves, below=0.1, factor=2.0, few=1).values())
    assert met == [True, True, False, False]  # 3 iterations are less than twice 2
    swapped = {"PSRO": FALLING, "anytime PSRO": RISING, "SP-PSRO": RISING, "XDO": RISING}
    assert not any(population_curves.verdicts(swapped, below=0.1, factor=1.0, few=2).values())
    never = {**curves, "PSRO": [[0.0, 2.0]] * 5, "SP-PSRO": RISING[:2], "XDO": RISING[:2]}
    assert list(population_curves.verdicts(never, below=0.1, factor=1.0, few=9).values())[2:] == [False, False]
    assert list(population_curves.verdicts({**never, "XDO": FALLING}, 0.1, 2.5, 9).values())[2]  # 5 or more against 2


def test_population_curves_of_kuhn_meet_their_claims():
    methods = demonstrations.SHOWS["curves-kuhn"].settings["methods"]
    short = {name: {**each, "iterations": 5} for name, each in methods.items()}
    short["SP-PSRO"]["num_segments"] = 100
    found = population_curves.population_curves("KuhnPoker-v0", short, below=0.1, factor=1.0, few=5)
    assert all(found["met"].values()), found["met"]
    assert found["whole_game"]["value"] == pytest.approx(-1 / 18, abs=1e-3)
    assert found["methods"]["XDO"]["choices"][-1] < found["choices"] == [12, 12]


def test_self_play_has_as_many_steps_as_psro(monkeypatch):
    monkeypatch.setitem(presets.TRAIN_PRESETS, ("KuhnPoker-v0", "cpu"), {"algorithm": "ppo", **SHORT})
    monkeypatch.setattr(self_play_curves, "POINTS", 2)
    found = self_play_curves.self_play_curves("KuhnPoker-v0", 2, [0.1], seeds=1, claimed=0.1)
    ends = {name: runs[0]["curve"][-1][0] for name, runs in found["by_step"].items()}
    steps = 2 * 2 * SHORT["total_steps"]
    assert ends == {"PSRO": steps, "PPO, entropy 0.1, last policy": steps, "PPO, entropy 0.1, average policy": steps}
    for (run,) in found["by_step"].values():
        assert run["curve"][0] == [0, pytest.approx(0.9167, abs=1e-4)]  # NashConv of the uniform policy
    last, average = (found["by_step"][f"PPO, entropy 0.1, {name} policy"][0]["curve"] for name in ("last", "average"))
    assert last[1] == average[1]  # the average of one snapshot
    assert last[2] != average[2]
    assert set(found["met"]) == {"last policy below PSRO", "average policy below PSRO"}


def test_ahead_compares_the_worst_run_with_the_best_of_the_other_method():
    assert self_play_curves.ahead([0.1, 0.3], [0.4, 0.9])
    assert not self_play_curves.ahead([0.1, 0.5], [0.4, 0.9])


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


def test_cross_play_weighs_policies():
    """A mixture earns the weighted mean of what its policies earn, with the interval of a stratified mean."""
    game = Game.of("RockPaperScissors-v0", shared=False)
    one = torch.ones(1).double()
    rock = Side("rock", {role: [Always(0)] for role in game.roles}, dict.fromkeys(game.roles, one))
    mixed = Side(
        "mixed",
        {role: [Always(0), Always(1)] for role in game.roles},
        dict.fromkeys(game.roles, torch.tensor([0.25, 0.75]).double()),
    )
    means, halves = cross_play.cross_play(game, [rock, mixed])
    episode = float(means[0].abs().max()) / 0.75  # what a win is worth
    assert means[0].tolist() == [[0.0, pytest.approx(-0.75 * episode)], [pytest.approx(0.75 * episode), 0.0]]
    assert means[1].tolist() == (-means[0]).tolist()
    assert not halves.any()


def test_mixture_drops_policies_of_tiny_probability():
    game = Game.of("KuhnPoker-v0")
    population = {role: [RandomPolicy.of(game, role), Always(0)] for role in game.roles}
    marginals = [torch.tensor([0.999, 0.001]), torch.tensor([0.5, 0.5])]
    side = Side.mixture("m", population, [each.double() for each in marginals])
    assert [len(side.policies[role]) for role in game.roles] == [1, 2]
    assert [float(side.weights[role].sum()) for role in game.roles] == [1.0, 1.0]


JOINT = cross_play.JOINT_PPO[0]


@pytest.mark.parametrize(("seat", "apart"), [(0, True), (1, False)])
def test_verdict_is_computed_for_both_seats(seat, apart):
    """The first seat of the mixture earns 5 against both trainings, those 2 and 3 there; the second as much."""
    first = torch.tensor([[4.0, 5.0, 5.0], [2.0, 1.0, 0.0], [3.0, 0.0, 1.0]])
    second = torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    means, halves = torch.stack([first, second]).double(), torch.full((2, 3, 3), 0.5).double()
    names = ["psro 0", f"{JOINT} 0", f"{JOINT} 1"]
    row = cross_play.verdict(("first", "second"), names, means, halves, "psro", JOINT)[seat]
    assert row["apart"] is apart
    if seat == 0:
        assert row["mixture_against_baseline"] == [5.0, pytest.approx(0.5 / 2**0.5)]
        assert row["baseline_against_mixture"][0] == 2.5


def test_populations_are_compared_with_joint_ppo_only():
    """A population that beats independent learners alone has met nothing."""
    names = ["psro 0", "independent 0", f"{JOINT} 0"]
    first = torch.tensor([[0.0, 9.0, 1.0], [0.0, 0.0, 0.0], [5.0, 9.0, 0.0]]).double()
    result = {"roles": ["a", "b"], "sides": names, "means": torch.stack([first, first.T]).tolist()}
    found = cross_play.judged(result | {"halves": torch.zeros(2, 3, 3).tolist()})
    assert {row["baseline"] for row in found["verdicts"]["psro"]} == {JOINT}
    assert found["met"] == {"psro": False}
    without = {"roles": ["a", "b"], "sides": names[:2], "means": torch.zeros(2, 2, 2).tolist()}
    assert cross_play.judged(without | {"halves": torch.zeros(2, 2, 2).tolist()})["met"] == {"psro": False}


def test_joint_ppo_has_equal_steps_samples_or_time(monkeypatch):
    """A population used 1,000 steps of two roles in 20 s; joint PPO takes 100 steps per second."""
    given = []
    side = cross_play.Side("psro 0", {"a": [], "b": []}, {role: torch.ones(1) for role in ("a", "b")})
    clock = iter([0.0, 20.0, *range(100, 200)])
    monkeypatch.setattr(cross_play.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(cross_play, "_psro", lambda *_: (side, 1_000, 0))
    monkeypatch.setattr(cross_play, "_joint_speed", lambda game: 100.0)
    monkeypatch.setattr(cross_play, "cross_play", lambda game, sides, episodes: (torch.zeros(2, 4, 4).double(),) * 2)

    def joint_ppo(game, steps, seed, name):
        given.append((name, steps))
        return cross_play.Side(name, side.policies, side.weights), steps

    monkeypatch.setattr(cross_play, "joint_ppo", joint_ppo)
    cross_play.compare_with_joint_ppo("KuhnPoker-v0", 1_000, ("psro",), 1)
    assert given == [
        (f"{name} 0", steps) for name, steps in zip(cross_play.JOINT_PPO, (1_000, 500, 2_000), strict=True)
    ]


def test_interval_over_seeds_has_its_nominal_coverage():
    """Draw tables with effects of rows, columns and cells; 95 % intervals must miss the true mean in at most 5 %."""
    random = torch.Generator().manual_seed(3)
    missed = 0
    for _ in range(2_000):
        rows, columns, cells = (torch.randn(shape, generator=random) for shape in ((5, 1), (1, 5), (5, 5)))
        mean, half = cross_play.over_seeds(7 + 3 * rows + 2 * columns + cells)
        missed += abs(mean - 7) > half
    assert 20 <= missed <= 110  # t has the degrees of one margin, which is on the safe side
    mean, half = cross_play.over_seeds(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert (mean, half) == (2.5, pytest.approx(12.706 * (2.0 / 2 + 0.5 / 2) ** 0.5, rel=1e-4))


def test_difference_over_seeds_needs_enough_seeds():
    """The means differ clearly, but one of three populations is worse."""
    names = [f"{kind} {seed}" for kind in ("psro", JOINT) for seed in range(3)]
    means, halves = torch.zeros(2, 6, 6).double(), torch.full((2, 6, 6), 0.1).double()
    means[:, :3, 3:] = torch.tensor([9.0, 8.0, -2.0])[:, None].double()
    row = cross_play.verdict(("a", "b"), names, means, halves, "psro", JOINT)[0]
    assert row["ahead"] == [pytest.approx(5), pytest.approx(4.303 * (37 / 3) ** 0.5, rel=1e-3)]
    assert not row["apart"]
    few = [0, 1, 3, 4, 5]
    means, halves = means[:, few][:, :, few], halves[:, few][:, :, few]
    row = cross_play.verdict(("a", "b"), [names[i] for i in few], means, halves, "psro", JOINT)[0]
    assert row["apart"]
    assert "ahead" not in row


def test_openspiel_psro_runs_without_optional_packages():
    """OpenSpiel's loop runs with exact and learned responses, and no stub of a package remains."""
    from benchmarks.peers.openspiel_psro import Theirs, cell

    run = Theirs("KuhnPoker-v0", "exact", episodes=200)
    assert run.nash_conv() == pytest.approx(0.9167, abs=1e-4)
    run.iterate()
    assert run.nash_conv() == pytest.approx(0.8333, abs=1e-4)
    learned = Theirs("KuhnPoker-v0", "learned", episodes=5, training_episodes=50)
    learned.iterate()
    assert 0 < learned.nash_conv() <= 4
    assert abs(float(sum(cell("KuhnPoker-v0", 20, seed=0)))) < 1e-9
    for name in ("cvxpy", "tree"):
        assert name not in sys.modules or sys.modules[name].__spec__ is not None


@pytest.mark.parametrize("name", demonstrations.SHOWS)
def test_settings_of_a_demonstration_are_settings_of_its_leagues(name, monkeypatch):
    """The leagues themselves run for minutes; their configurations are made here."""
    made = []
    monkeypatch.setattr(demonstrations, "nash_conv_curve", lambda env_id, config: made.append(config) or {"curve": []})
    monkeypatch.setattr(demonstrations, "_openspiel_curve", lambda *_: {"curve": []})
    show = demonstrations.SHOWS[name]
    if show.run is demonstrations.exploitability:
        show.run(**show.settings)
        assert len(made) == 2 * show.settings["turns"]
        assert {config.episodes_per_matchup for config in made} == {demonstrations.CELL_EPISODES}
    for config in filter(None, [show.settings.get("psro")]):
        assert PSROConfig(**{**psro_preset(show.settings["env_id"]), **config})
