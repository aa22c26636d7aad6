"""Random rollouts in one kernel; ``test_conformance.py`` compares them with single steps."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import toy
import turns
import warp as wp

import gpu_envs
from gpu_envs import errors
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.factory import make_core
from gpu_envs.testing import env_checker
from gpu_envs.testing.conformance import check_random_play
from warp_kernels.episode import IO

pytestmark = pytest.mark.representative


@wp.func
def on_the_move(state: turns.State, env: int, agent: int):
    return state.mover[env] == agent and state.winner[env] < 0


@wp.func
def allow(state: turns.State, io: IO, env: int, agent: int):
    for heap in range(state.stones.shape[1]):
        for stones in range(turns.MOST):
            io.action_mask[env, agent, heap * turns.MOST + stones] = state.stones[env, heap] > stones


@wp.func
def legal(params: turns.Params, state: turns.State, io: IO, env: int, agent: int):
    io.to_move[env, agent] = on_the_move(state, env, agent)
    allow(state, io, env, agent)


@wp.func
def half_legal(params: turns.Params, state: turns.State, io: IO, env: int, agent: int):
    """Violate the contract: leave the mask to `observe`."""
    io.to_move[env, agent] = on_the_move(state, env, agent)


@wp.func
def observe(params: turns.Params, state: turns.State, io: IO, env: int, agent: int):
    heaps = state.stones.shape[1]
    io.obs[env, agent, heaps] = wp.where(on_the_move(state, env, agent), 1.0, 0.0)
    for heap in range(heaps):
        io.obs[env, agent, heap] = float(state.stones[env, heap]) / float(params.largest)


@wp.func
def observe_and_allow(params: turns.Params, state: turns.State, io: IO, env: int, agent: int):
    observe(params, state, io, env, agent)
    allow(state, io, env, agent)


NIMS = {
    "masks in observe": {},
    "masks apart": {"legal": legal, "observe": observe},
    "half apart": {"legal": half_legal, "observe": observe_and_allow},
}


@pytest.fixture
def nim(monkeypatch):
    """Function that registers a kind of Nim, and gives its id."""

    def register(kind):
        env_id = f"Nim-{kind.replace(' ', '-')}-v0"

        def build(config):
            d = turns.build(config)
            return replace(d, rules=replace(d.rules, key=f"{d.rules.key} {kind}", **NIMS[kind]))

        toy.announce(monkeypatch, env_id, SimpleNamespace(Config=turns.Config, build=build))
        return env_id

    return register


@pytest.mark.parametrize(
    "schedule", ["fused", *(pytest.param(how, marks=pytest.mark.slow) for how in ("block", "phased"))]
)
@pytest.mark.parametrize("kind", [pytest.param("masks in observe", marks=pytest.mark.slow), "masks apart"])
def test_masks_with_the_observation_or_apart(nim, schedule, kind, monkeypatch):
    """With separate functions for masks and observations, steps are played without observing."""
    toy.announce(monkeypatch, "Nim-v0", turns)
    stepped = make_core("Nim-v0", 64, "cpu", seed=0, schedule=schedule)
    played = make_core(nim(kind), 64, "cpu", seed=0, schedule=schedule, threads=2)
    stepped.reset()
    played.reset()
    for steps in (1, 3, 30):
        for _ in range(steps):
            left = stepped.step(stepped.sample_actions())
        right = played.random_rollout(steps)
        for a, b in zip((*left[:4], *left[4].values()), (*right[:4], *right[4].values()), strict=True):
            assert torch.equal(a, b)
        ours, theirs = stepped.get_state(), played.get_state()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert stepped.episode_index.sum() > 200


def test_check_env_compares_legal_with_the_masks(nim, monkeypatch):
    """Rules that give ``legal`` and leave the masks to observe would be played on stale masks."""
    assert check_random_play in env_checker.LAWS
    monkeypatch.setattr(env_checker, "LAWS", (check_random_play,))
    gpu_envs.check_env(nim("masks apart"))
    words = (
        r"^Nim-half-apart-v0: random_rollout is step after step: observe writes io\.obs alone, .*; "
        r"after \d+ steps \w+\.\w+ differs"
    )
    with pytest.raises(errors.ConformanceError, match=words):
        gpu_envs.check_env(nim("half apart"))


def test_constants_of_each_world():
    """The launch is recorded again when the constants move."""
    first, second = (make_core("SimpleTag-v0", 6, "cpu", seed=0, max_cycles=5) for _ in range(2))
    first.reset()
    second.reset()
    for core in (first, second):
        core.random_rollout(3)
        core.set_params(good_max_speed=torch.linspace(0.0, 2.0, 6))
    for _ in range(9):
        left = first.step(first.sample_actions())
    right = second.random_rollout(9)
    assert torch.equal(left[0], right[0])
    assert (second.episode_index == 2).all()


def test_errors_are_one_line():
    core = make_core("SimpleTag-v0", 2, "cpu", seed=0)
    with pytest.raises(errors.ResetNeededError, match=r"^SimpleTag-v0: .*reset"):
        core.random_rollout(3)
    core.reset()
    for steps in (0, -1, 1.0, True, None, 2**31):
        with pytest.raises(errors.ConfigError, match=r"^SimpleTag-v0: num_steps: expected an int in \[1, 2147483647\]"):
            core.random_rollout(steps)
    assert not core.elapsed_steps.any()
    core.close()
    with pytest.raises(errors.ResetNeededError, match="closed"):
        core.random_rollout(3)


def test_rules_with_other_choices_than_the_spaces_raise():
    """The mistake of an author is reported when the environment is created."""
    definition = turns.build(turns.Config())
    wrong = replace(definition, rules=replace(definition.rules, num_choices=8))
    with pytest.raises(ValueError, match=r"nim.*: rules.num_choices: expected \[\[9\], \[9\]\], .*, got 8"):
        Core(wrong, env_id="Nim-v0", config=turns.Config(), num_envs=1, device=torch.device("cpu"))


@pytest.mark.parametrize("env_id", ["LeducPoker-v0", "SimpleTag-v0"])
def test_recorders_see_every_step(env_id):
    """With a recorder steps come back to Python, and what is played is the same."""
    plain, recorded = (make_core(env_id, 12, "cpu", seed=0) for _ in range(2))
    plain.reset()
    recorded.reset()
    with recorded.record_episodes([3, 7]) as recorder:
        plain.random_rollout(90)
        recorded.random_rollout(90)
        episodes = recorder.take()
    left, right = plain.get_state(), recorded.get_state()
    assert all(torch.equal(left[name], right[name]) for name in left)
    for world in (3, 7):
        lengths = [len(episode) for episode in episodes if episode.world == world]
        assert len(lengths) == int(plain.episode_index[world])
        assert sum(lengths) + int(plain.elapsed_steps[world]) == 90


def test_constants_drawn_for_every_episode():
    settings = {"seed": 0, "domain_randomization": {"first_raise": (1, 9)}}
    stepped, played = (make_core("LeducPoker-v0", 40, "cpu", **settings) for _ in range(2))
    stepped.reset()
    played.reset()
    for _ in range(60):
        stepped.step(stepped.sample_actions())
    played.random_rollout(60)
    left, right = stepped.get_state(), played.get_state()
    assert all(torch.equal(left[name], right[name]) for name in left)
    assert len(left["params"].unique(dim=0)) > 5
