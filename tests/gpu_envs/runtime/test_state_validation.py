"""States, constants and episodes are checked by their declared ranges before anything is copied."""

import json
import math
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
import toy
from small_environments import SMALL

from gpu_envs import errors
from gpu_envs.definition.environment import any_bits, index, integers
from gpu_envs.definition.registry import list_envs
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.factory import configured_definition

EXTREMES = (-1, 2**31 - 1, -(2**31))


def ranged(core):
    """Name, lowest and highest value of every restored field of integers that has a range and holds something."""
    state = core.get_state()
    return {
        name: (low, high, state[name])
        for name, (low, high) in core._buffers.ranges.items()
        if low is not None and state[name].numel()
    }


def refused(core, state, *words):
    """Assert that a state raises a one-line error with these words and changes nothing."""
    previous = core.get_state()
    with pytest.raises(errors.CheckpointError) as caught:
        core.set_state(state)
    message = str(caught.value)
    for word in words:
        assert word in message, message
    assert all(torch.equal(previous[name], tensor) for name, tensor in core.get_state().items())


def changed(state, name, value):
    """Return a state with another value in the last entry of one tensor."""
    tensor = state[name].clone()
    tensor.view(-1)[-1] = value
    return {**state, name: tensor}


def test_every_integer_entry_of_a_state_has_a_range(env_id, small_core):
    core = small_core(env_id, 2)
    integer = {n for n, t in core.get_state().items() if not t.is_floating_point() and t.dtype != torch.bool}
    assert integer == set(core._buffers.ranges)


@pytest.mark.representative
def test_set_state_with_values_outside_their_ranges_raises(env_id, small_core):
    core = small_core(env_id, 3)
    core.reset()
    state = core.get_state()
    for name, (low, high, tensor) in ranged(core).items():
        limits = torch.iinfo(tensor.dtype)
        outside = [v for v in (low - 1, high + 1, *EXTREMES) if not low <= v <= high and limits.min <= v <= limits.max]
        for value in outside:
            words = f"{name}: expected values in [{low}, {high}], got {value} in world 2"
            refused(core, changed(state, name, value), f"{core.id}: {words}")


@pytest.mark.representative
def test_every_state_that_is_reached_is_within_its_ranges(env_id, small_core):
    for autoreset in ("same_step", "next_step", "disabled"):
        core = small_core(env_id, 16, autoreset=autoreset)
        core.check_state(core.get_state())  # before the first reset
        core.reset()
        for _ in range(24):
            core.step(core.sample_actions())
            core.check_state(core.get_state())


SURVIVES = """
import contextlib, json, sys, torch
from gpu_envs.errors import ActionError
from gpu_envs.runtime.factory import make_core

def play(env_id, settings, floats):
    generator = torch.Generator().manual_seed(0)
    for schedule in ("fused", "phased"):
        core = make_core(env_id, 3, "cpu", seed=0, schedule=schedule, **settings)
        core.reset()
        core.step(core.sample_actions())
        start = core.get_state()
        ends = {n: r for n, r in core._buffers.ranges.items() if r[0] is not None and start[n].numel()}

        def survive(state):
            core.set_state(state)
            for _ in range(20):
                with contextlib.suppress(ActionError):  # a full board leaves no legal action
                    core.step(core.sample_actions())
            core.state()
            core.render_frames((0, 1, 2), 16)
            core.set_state(start)

        for name, bounds in ends.items():
            for value in bounds:
                survive({**start, name: torch.full_like(start[name], value)})
        for _ in range(12):  # all at once, each at one of its ends or anywhere between
            state = dict(start)
            for name, (low, high) in ends.items():
                share = torch.rand(start[name].shape, generator=generator, dtype=torch.float64)
                share = torch.where(torch.rand(share.shape, generator=generator) < 0.5, share.round(), share)
                drawn = low + (share * (high - low)).round().clamp(0, float(high - low) * (1 - 2.0**-53)).long()
                state[name] = torch.where(share == 1.0, high, drawn).to(start[name].dtype)
            survive(state)
        for value in map(float, floats):
            names = [n for n, t in start.items() if t.is_floating_point() and n != "params" and t.numel()]
            for name in names:
                survive({**start, name: torch.full_like(start[name], value)})
                one = start[name].clone()
                one.view(-1)[-1] = value
                survive({**start, name: one})
            survive({**start, **{name: torch.full_like(start[name], value) for name in names}})
    print(env_id, flush=True)

for game in json.loads(sys.argv[1]):
    play(*game)
"""


def survive(*games):
    """Play games, (id, settings, floats) each, from odd states in another process, whose end by a signal is seen."""
    command = [sys.executable, "-c", SURVIVES, json.dumps(games)]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600 * len(games))
    played, expected = run.stdout.split(), [env_id for env_id, _, _ in games]
    assert played == expected, f"{run.returncode} after {played} of {expected}: {run.stderr[-2000:]}"
    assert run.returncode == 0, run.stderr[-2000:]


FLOATS = ["nan", "inf", "-inf", "1e38", "-1e38"]


@pytest.mark.slow
def test_states_at_the_ends_of_their_ranges_can_be_played():
    survive(*((env_id, SMALL[env_id], []) for env_id in ("TicTacToe-v0", "KuhnPoker-v0")))


PARTS = 4
"""Number of processes for all environments: imports take longer than to play one environment."""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_accepted_state_crashes(part):
    survive(*((env_id, SMALL[env_id], FLOATS) for env_id in list_envs()[part::PARTS]))


@pytest.mark.slow
@pytest.mark.optimized  # for its many steps
def test_no_accepted_state_crashes_the_neighbor_search():
    settings = {"num_taggers": 10, "num_runners": 70, "episode_length": 9}
    survive(*(("TagContinuous-v0", {**settings, "neighbor_search": how}, FLOATS) for how in ("brute", "grid")))


# ---------------------------------------------------------------- what else a state may not hold


def test_bool_that_is_neither_0_nor_1_raises(small_core):
    core = small_core("SimpleTag-v0", 2)
    core.reset()
    alive = core.alive.clone()
    alive.view(torch.uint8)[1, 2] = 7
    refused(core, {**core.get_state(), "io.alive": alive}, "io.alive: expected values in [0, 1], got 7 in world 1")


def test_state_of_an_earlier_version_with_equal_action_bounds_is_accepted(small_core):
    for env_id in ("TicTacToe-v0", "Pendulum-v1"):
        core = small_core(env_id, 2)
        core.reset()
        assert not core._buffers.constants.keys() & core.get_state().keys()
        old = core.get_state() | {name: tensor.clone() for name, tensor in core._buffers.constants.items()}
        core.set_state(old)
        name = "io.num_choices" if env_id == "TicTacToe-v0" else "io.high"
        refused(core, {**old, name: old[name] + 1}, f"{env_id}: {name} is not that of the action spaces here")
        refused(core, {**old, "io.other": old[name]}, "entries that differ: io.other")


@pytest.mark.representative
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_state_with_parameters_that_are_not_finite_raises(env_id, small_core, value):
    core = small_core(env_id, 2)
    core.reset()
    state = core.get_state()
    for column, (name, values) in enumerate(core.get_params().items()):
        if values.is_floating_point():
            params = state["params"].clone()
            params[-1, column] = value
            refused(
                core, {**state, "params": params}, f"{core.id}: params.{name}: expected values in [", f"got {value} in"
            )


def test_state_with_parameters_outside_their_limits_raises(small_core):
    core = small_core("TagGridworld-v0", 2)
    core.reset()
    state, names = core.get_state(), list(core.get_params())
    for name, value in (("grid_length", 0), ("grid_length", 2**31 - 1), ("wall_hit_penalty", -1.0)):
        params = state["params"].clone()
        (params.view(torch.int32) if name == "grid_length" else params)[0, names.index(name)] = value
        refused(core, {**state, "params": params}, f"params.{name}: expected values in [", f"got {value} in world 0")
    params = state["params"].expand(2, -1).clone()
    params.view(torch.int32)[1, names.index("episode_length")] = 9
    refused(core, {**state, "params": params}, "episode_length differs", "make(..., episode_length=...)")


def test_infinite_parameter_is_accepted_only_if_declared():
    def core_with(**bounds):
        name, config, definition = configured_definition("CartPole-v1", None, {})
        definition = replace(definition, bounds=bounds)
        core = Core(definition, env_id=name, config=config, num_envs=2, device=torch.device("cpu"), seed=0)
        core.reset()
        return core

    declared = core_with(gravity=(0.0, math.inf))
    declared.set_params(gravity=math.inf)
    declared.set_state(declared.get_state())
    assert declared.get_params()["gravity"].isinf().all()
    for bad in (math.nan, -math.inf):
        with pytest.raises(errors.ConfigError, match="gravity: expected"):
            declared.set_params(gravity=bad)
    other = core_with()
    with pytest.raises(errors.ConfigError, match="gravity: expected a finite number"):
        other.set_params(gravity=math.inf)
    refused(other, declared.get_state(), "params.gravity: expected values in [", "got inf in world 0")


# ---------------------------------------------------------------- recorded episodes


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda e: {"state": {**e.state, "mover": e.state["mover"] + 9}},
            r"state\.mover: expected values in \[-1, 1\], got",
        ),
        (lambda e: {"state": {"mover": e.state["mover"]}}, r"of another environment or version; state\.marks"),
        (lambda e: {"state": {**e.state, "mover": e.state["mover"].float()}}, r"state\.mover: expected torch.int32"),
        (lambda e: {"action": e.action + 9}, r"action: expected values in \[0, 8\], got"),
        (lambda e: {"valid": e.valid[:1]}, r"valid: expected torch.bool"),
        (lambda e: {"to_move": None}, r"to_move: expected torch.bool \(.*\), got NoneType"),
    ],
)
def test_recorded_episode_of_wrong_shape_raises(small_core, change, words):
    core = small_core("TicTacToe-v0", 1)
    core.reset()
    with core.record_episodes(0) as recorder:
        for _ in range(10):
            core.step(core.sample_actions())
    episode = recorder.take()[0]
    assert len(recorder.frames(episode, 16)) == len(episode)
    with pytest.raises(errors.CheckpointError, match=f"^TicTacToe-v0: .*{words}"):
        recorder.frames(replace(episode, **change(episode)), 16)


# ---------------------------------------------------------------- what an author declares


def test_integer_field_without_a_range_raises(monkeypatch):
    sound = toy.build(toy.Config())
    for state, words in (
        ({"cell": (3,)}, r"State\.cell: expected the range of a field of integers, got only its shape \(3,\); use int"),
        ({}, r"state: expected an entry for State\.cell, got none"),
    ):
        with pytest.raises(errors.ConfigError, match=words):
            replace(sound, state=state)
    for low, high in ((0, 2**40), (3, 2)):
        with pytest.raises(errors.ConfigError, match=rf"State\.cell: expected lowest <= .*, got {low} to {high}"):
            replace(sound, state={"cell": integers((3,), low, high)})
    assert replace(sound, state={"cell": any_bits((3,))}).ranges == {"cell": (None, None)}
    assert replace(sound, state={"cell": index((3,), 5)}).ranges == {"cell": (0, 4)}
    with pytest.raises(errors.ConfigError, match=r"State\.motion: expected a shape, as its values are no integers"):
        replace(configured_definition("CartPole-v1", None, {})[2], state={"motion": integers((), 0, 1)})
    with pytest.raises(errors.ConfigError, match=r"State\.cell: expected values in \[0, 4\], got 0 to 9"):
        replace(sound, state={"cell": index((3,), 5)}, initial={"cell": torch.tensor([0, 1, 9]).numpy()})
