"""The shows of the league: the page is what was recorded, and what is compared is compared rightly."""

import json
import sys

import pytest

from benchmarks.league import (
    correlated_curves,
    demonstrations,
    league_page,
    population_curves,
    self_play_curves,
    study_section,
)
from league.storage import presets

DRAWN = (league_page, population_curves, self_play_curves, study_section)
"""Modules with a figure of the page."""


@pytest.mark.parametrize("saved", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["text", "figures"])
def test_page_equals_the_recorded_results(saved, monkeypatch, tmp_path):
    """Saving the figures takes nearly all of the time."""
    written = league_page.PAGE.read_text(encoding="utf-8")
    monkeypatch.setattr(league_page, "PAGE", tmp_path / "league.md")
    figures = []
    for module in DRAWN:
        assert 1_000 < module.PICTURE.stat().st_size < 500_000
        monkeypatch.setattr(module, "PICTURE", tmp_path / module.PICTURE.name)
        if not saved:
            monkeypatch.setattr(module, "save_figure", lambda figure, path, dpi: figures.append(path.name))
    demonstrations.write_page()
    names = [path.name for path in tmp_path.glob("*.png")] if saved else figures
    assert sorted(names) == sorted(module.PICTURE.name for module in DRAWN)
    command = "python -m benchmarks.league.demonstrations --write"
    assert (tmp_path / "league.md").read_text(encoding="utf-8") == written, command


def test_recorded_settings_equal_those_of_the_demonstration():
    for name, result in demonstrations.recorded().items():
        expected = json.loads(json.dumps(dict(demonstrations.SHOWS[name].settings)))
        assert result["settings"] == expected, f"python -m benchmarks.league.demonstrations {name}"


def test_first_time_below():
    curve = [[0.5, 0.9], [2.0, 0.1], [3.0, 0.4]]
    assert demonstrations.reach(curve, 0.1) == 2.0
    assert demonstrations.reach(curve, 0.05) is None


RISING = [[0.0, 2.0], [0.1, 3.0], [0.2, 1.0], [0.3, 0.1]]
SHORT = {"total_steps": 128, "num_envs": 16, "learner.rollout_length": 8, "learner.hidden_sizes": [8]}
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


@pytest.mark.slow
def test_population_curves_of_kuhn_meet_their_claims():
    methods = demonstrations.SHOWS["curves-kuhn"].settings["methods"]
    short = {name: {**settings, "iterations": 5} for name, settings in methods.items()}
    short["SP-PSRO"]["num_segments"] = 100
    result = population_curves.population_curves("KuhnPoker-v0", short, below=0.1, factor=1.0, few=5)
    assert all(result["met"].values()), result["met"]
    assert result["whole_game"]["value"] == pytest.approx(-1 / 18, abs=1e-3)
    assert result["methods"]["XDO"]["choices"][-1] < result["choices"] == [12, 12]


def test_correlated_curves_have_the_gap_of_their_meta_solver():
    methods = {name: {"meta_solver": name, "iterations": 5, **demonstrations.WELFARE} for name in ("ce", "cce")}
    result = correlated_curves.correlated_curves("KuhnPoker-v0", {"num_players": 2}, methods, below=0.9)
    for entry in result["correlated"].values():
        gaps = [gap for _, gap in entry["curve"]]
        assert gaps[0] == pytest.approx(0.9167, abs=1e-4)  # of the uniform policies
        assert min(gaps) < 0.9
    assert result["met"] == {"ce reaches 0.9": True, "cce reaches 0.9": True}
    text = "\n".join(correlated_curves.section(result))
    assert text.count("\n| c") == 2


def test_self_play_has_as_many_steps_as_psro(monkeypatch):
    monkeypatch.setitem(presets.TRAIN_PRESETS, ("KuhnPoker-v0", "cpu"), {"algorithm": "ppo", **SHORT})
    monkeypatch.setattr(self_play_curves, "POINTS", 2)
    result = self_play_curves.self_play_curves("KuhnPoker-v0", 2, [0.1], seeds=1, claimed=0.1)
    ends = {name: runs[0]["curve"][-1][0] for name, runs in result["by_step"].items()}
    steps = 2 * 2 * SHORT["total_steps"]
    assert ends == {"PSRO": steps, "PPO, entropy 0.1, last policy": steps, "PPO, entropy 0.1, average policy": steps}
    for (run,) in result["by_step"].values():
        assert run["curve"][0] == [0, pytest.approx(0.9167, abs=1e-4)]  # NashConv of the uniform policy
    last, average = (result["by_step"][f"PPO, entropy 0.1, {name} policy"][0]["curve"] for name in ("last", "average"))
    assert last[1] == average[1]  # the average of one snapshot
    assert last[2] != average[2]
    assert set(result["met"]) == {"last policy below PSRO", "average policy below PSRO"}


def test_ahead_compares_the_worst_run_with_the_best_of_the_other_method():
    assert self_play_curves.ahead([0.1, 0.3], [0.4, 0.9])
    assert not self_play_curves.ahead([0.1, 0.5], [0.4, 0.9])


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
    configs = []
    monkeypatch.setattr(
        demonstrations, "nash_conv_curve", lambda env_id, config: configs.append(config) or {"curve": []}
    )
    monkeypatch.setattr(demonstrations, "_openspiel_curve", lambda *_: {"curve": []})
    show = demonstrations.SHOWS[name]
    if show.run is demonstrations.exploitability:
        show.run(**show.settings)
        assert len(configs) == 2 * show.settings["turns"]
        assert {config.episodes_per_matchup for config in configs} == {demonstrations.CELL_EPISODES}
