"""League runs on the pretended GPU equal those on the CPU: policies, payoffs, matches and summaries."""

from types import SimpleNamespace

import psro_runs
import pytest
import small_league
import torch

from league.game import Game
from league.league_algorithms import ALGORITHMS, find
from league.matchups.opponent_sampler import OpponentSampler
from league.psro.config import PSROConfig
from league.psro.psro import VARIANTS
from league.storage import run_config
from league.storage.open_run import open_run
from pretended_gpu.runs import DEVICES, SECOND
from trainers.models.policy_set import PolicySet

KUHN = Game.of("KuhnPoker-v0")
TAG = Game.of("SimpleTag-v0", {"max_episode_steps": 5})
THREE = Game.of("KuhnPoker-v0", {"num_players": 3})
TEAMS = Game.of("SimpleWorldComm-v0", {"max_cycles": 2})
SMALL = {
    "iterations": 2,
    "steps": small_league.STEPS,
    "episodes_per_matchup": 20,
    "eval_num_envs": 100,
    "train_overrides": small_league.TINY,
}
BUILDERS = {
    "alphastar": "alphastar",
    "pbt": "pbt",
    "self_play": "latest",
    "fictitious_self_play": "uniform",
    "pfsp": "pfsp",
}
"""Small rules of `small_league.builder` by league algorithm."""


@pytest.fixture(autouse=True)
def settings_of_the_cpu(monkeypatch):
    """Train with the presets of the CPU on all devices."""
    of_league, of_trainers = run_config.presets.train_preset, run_config.preset
    monkeypatch.setattr(run_config.presets, "train_preset", lambda env_id, _, name: of_league(env_id, "cpu", name))
    monkeypatch.setattr(run_config, "preset", lambda env_id, _, name: of_trainers(env_id, "cpu", name))


@pytest.fixture(autouse=True)
def shapes_of_a_gpu(monkeypatch):
    """Let frozen policies act on the CPU with shapes that do not depend on values, as on a GPU.

    Otherwise the CPU skips worlds without a decision, so that the policies draw fewer random numbers.
    """
    make, act, observe = PolicySet.__init__, OpponentSampler.act, OpponentSampler.observe

    def make_policies(self, *arguments):
        make(self, *arguments)
        self.skips = False

    def act_everywhere(self, core, info, into):
        if core.device.type == "cuda":
            return act(self, core, info, into)
        for seat, policies in self.seat_policies.items():
            policies.assign_on_device(self.assigned[:, seat])
            policies.act(core.obs, info, into)
        return None

    def observe_every_step(self, core, info, restarted):
        observe(self, SimpleNamespace(device=torch.device("cuda")), info, restarted)

    monkeypatch.setattr(PolicySet, "__init__", make_policies)
    monkeypatch.setattr(OpponentSampler, "act", act_everywhere)
    monkeypatch.setattr(OpponentSampler, "observe", observe_every_step)


def settings_of(name):
    """Return the settings of a small run of a league algorithm."""
    kind = find(name).config_type
    if kind is PSROConfig:
        return {**psro_runs.QUICK, "iterations": 2}
    return {**SMALL, "rules": small_league.builder(BUILDERS[name]).config} if name in BUILDERS else SMALL


def play(name, game, folder, device, **settings):
    """Run a league algorithm and return the contents of the run."""
    algorithm = find(name)
    config = algorithm.config_type(**{**settings_of(name), "device": device, **settings})
    with open_run(folder, game, name, config) as store:
        algorithm.make(store, config, None, None).run()
    return psro_runs.contents(folder)


ASYNCHRONOUS = {"asynchronous": True, "iterations": 1}
"""In one process tasks finish in the order of their submission, so that results are equal."""
SETTINGS_OF_VARIANTS = {"pipeline": {"pipeline_depth": 2}, "xdo": {"oracle": "exact"}}
CASES = {
    **{name: (name, KUHN if name == "psro" else small_league.RPS, {}) for name in ALGORITHMS},
    **{
        f"psro, {variant}": (
            "psro",
            Game.of("RockPaperScissors-v0") if variant == "rectified" else KUHN,
            {"variant": variant, **SETTINGS_OF_VARIANTS.get(variant, {})},
        )
        for variant in VARIANTS
    },
    "psro, many agents": ("psro", TAG, {}),
    "psro, asynchronous": ("psro", KUHN, {"variant": "pipeline", "pipeline_depth": 2, **ASYNCHRONOUS}),
    "alphastar, many agents": ("alphastar", TAG, {}),
    "alphastar, asynchronous": ("alphastar", small_league.RPS, ASYNCHRONOUS),
    "self_play, three seats": ("self_play", THREE, {}),
    "self_play, teams": ("self_play", TEAMS, {}),
}
"""League algorithm, game and settings."""


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case == "self_play" else pytest.mark.slow) for case in CASES]
)
def test_league_equals_the_cpu(case, tmp_path):
    name, game, settings = CASES[case]
    expected = play(name, game, tmp_path / "cpu", "cpu", **settings)
    assert expected["policies"]
    assert expected["cells"][1]
    for device in DEVICES if case == "fictitious_self_play" else SECOND:
        actual = play(name, game, tmp_path / device, device, **settings)
        for part, value in expected.items():
            assert actual[part] == value, part
