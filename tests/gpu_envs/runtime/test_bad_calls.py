"""Wrong arguments of the core, the wrappers and the registry get one line; more of them by test_fuzz.py."""

import gymnasium
import numpy as np
import pytest
import torch

import gpu_envs
from gpu_envs import errors, wrappers
from gpu_envs.runtime.factory import make_core


@pytest.fixture(scope="module")
def core():
    core = make_core("SimpleTag-v0", 3, "cpu", seed=0, reuse_buffers=True)
    core.reset()
    return core


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"reuse_buffers": "False"}, errors.ConfigError, "reuse_buffers: expected True or False, got 'False'"),
        ({"fuse_fp": "x"}, errors.ConfigError, "fuse_fp: expected True or False, or None, got 'x'"),
        ({"reuse_buffers": 1}, errors.ConfigError, "reuse_buffers: expected True or False, got 1"),
        (
            {"device": 2**70},
            errors.DeviceError,
            "device: expected 'cpu', 'cuda' or 'cuda:N', got 1180591620717411303424",
        ),
        ({"device": True}, errors.DeviceError, "device: expected 'cpu', 'cuda' or 'cuda:N', got True"),
        ({"schedule": np.zeros(2)}, errors.ConfigError, "schedule: expected 'fused', 'phased' or None"),
        ({"seed": 10**5000}, errors.ConfigError, r"seed: expected an int in \[-2\*\*63, 2\*\*64\)"),
        ({"reuse_buffers": np.bool_(True)}, None, ""),
    ],
)
def test_wrong_settings_of_the_runner_are_refused_and_numpy_bools_taken(settings, error, words):
    arguments = {"num_envs": 1, "device": "cpu", **settings}
    if error is None:
        make_core("SimpleTag-v0", **arguments)
        return
    with pytest.raises(error, match=words) as info:
        make_core("SimpleTag-v0", **arguments)
    assert "\n" not in str(info.value)


BAD_TENSORS = {
    "sparse": lambda: torch.zeros((3, 4), dtype=torch.int64).to_sparse(),
    "meta": lambda: torch.zeros((3, 4), dtype=torch.int64, device="meta"),
    "quantized": lambda: torch.quantize_per_tensor(torch.zeros(3, 4), 1.0, 0, torch.qint8),
    "nested": lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", BAD_TENSORS)
def test_tensors_without_elements_in_memory_are_refused(core, kind):
    bad, state = BAD_TENSORS[kind](), core.get_state()
    with pytest.raises(errors.ActionError, match=r"action: expected a torch.int64 tensor \(3, 4\) on cpu, got"):
        core.step(bad)
    env = gpu_envs.make("SimpleTag-v0", 3, "cpu")
    env.reset()
    bad_of_one = bad[:, 0] if kind in ("meta", "quantized") else bad
    with pytest.raises(errors.ActionError, match=r"action of adversary_1: expected a torch\.int64"):
        env.step({**env.sample_actions(), "adversary_1": bad_of_one})
    for name in ("io.alive", "params"):
        with pytest.raises(errors.CheckpointError, match=f"{name}: expected"):
            core.set_state({**state, name: bad})
    with pytest.raises(errors.ConfigError, match="good_size: expected"):
        core.set_params(good_size=bad)
    assert all(torch.equal(values, state[name]) for name, values in core.get_state().items())


def test_sparse_action_of_one_agent_is_refused():
    env = gpu_envs.make("SimpleTag-v0", 3, "cpu")
    env.reset()
    sparse = torch.zeros(3, dtype=torch.int64).to_sparse()
    with pytest.raises(errors.ActionError, match=r"action of agent_0: expected .* got .* torch.sparse_coo"):
        env.step({**env.sample_actions(), "agent_0": sparse})


@pytest.mark.parametrize(
    "envs",
    [True, [True], [0, 3], -1, "0", torch.tensor([0.0]), torch.tensor([3]), [[0]], {}, {0}, {0: 1}, b"\0", iter([0])],
)
def test_worlds_out_of_range_are_refused(core, envs):
    for call in (core.get_params, core.render_frames, core.record_episodes):
        with pytest.raises(errors.ConfigError, match=r"envs: expected indices of worlds in \[0, 3\), got"):
            call(envs)


@pytest.mark.parametrize("agent", ["agent_7", 0, None, ["agent_0"]])
def test_space_of_an_unknown_agent_is_refused(agent):
    for env in (gpu_envs.make("SimpleTag-v0", 1, "cpu"), gpu_envs.parallel_env("SimpleTag-v0")):
        for call in (env.observation_space, env.action_space):
            with pytest.raises(errors.ConfigError, match=r"^SimpleTag-v0: no agent named .*agent_0"):
                call(agent)


def test_frames_have_a_largest_size(core):
    with pytest.raises(errors.ConfigError, match=r"size: expected at most 26754 \[pixels\] for 1 worlds, got 100000"):
        core.render_frames(size=10**5)
    assert core.render_frames(torch.tensor([0, 2]), np.int64(8)).shape == (2, 8, 8, 3)


@pytest.mark.parametrize("play", [5, None, "x"])
def test_capture_takes_functions_only(core, play):
    with pytest.raises(errors.ConfigError, match="capture takes a function that steps this core, got"):
        core.capture(play)


def test_closed_core_takes_no_state():
    core = make_core("SimpleTag-v0", 1, "cpu")
    core.reset()
    state = core.get_state()
    core.close()
    for call in (lambda: core.set_state(state), lambda: core.set_params(good_size=0.1)):
        with pytest.raises(errors.ResetNeededError, match="closed"):
            call()


@pytest.mark.parametrize(
    ("kind", "arguments", "words"),
    [
        (wrappers.NormalizeObservation, {"epsilon": float("nan")}, "epsilon: expected a finite number, got nan"),
        (wrappers.NormalizeObservation, {"epsilon": "x"}, "epsilon: expected a finite number, got 'x'"),
        (wrappers.NormalizeReward, {"gamma": "0.9"}, "gamma: expected a finite number, got '0.9'"),
        (
            wrappers.ClipReward,
            {"min_reward": "x"},
            "min_reward and max_reward: expected numbers or of shape .*, got 'x'",
        ),
        (wrappers.FrameStackObservation, {"stack_size": "3"}, "stack_size: expected an int >= 1, got '3'"),
        (wrappers.FrameStackObservation, {"stack_size": 2**31}, "stack_size: expected"),
        (wrappers.RecordEpisodeStatistics, {"stats_key": 5}, "stats_key: expected a string, got 5"),
        (wrappers.RescaleObservation, {"min_obs": "0", "max_obs": 1}, "min_obs and max_obs: expected numbers"),
    ],
)
def test_wrong_arguments_of_wrappers_are_refused(kind, arguments, words):
    env = gymnasium.make_vec("gpu_envs/SimpleTag-v0", 2, group="agent", device="cpu")
    with pytest.raises(errors.ConfigError, match=f"{kind.__name__}: {words}"):
        kind(env, **arguments)
    with pytest.raises(errors.ConfigError, match=f"{kind.__name__} wraps"):
        kind(None, **arguments)


def test_module_that_is_no_host_file_is_refused(monkeypatch):
    monkeypatch.setattr("gpu_envs.definition.registry._entries", {})
    monkeypatch.setattr("gpu_envs.definition.registry._announce", lambda id: None)
    for number, (module, words) in enumerate({
        "json": "module json needs Config, a frozen dataclass of its settings, got None",
        "gpu_envs.nothing": "module gpu_envs.nothing cannot be imported",
    }.items()):  # fmt: skip
        gpu_envs.register(f"Bad-v{number}", module)
        with pytest.raises(errors.ConfigError, match=words):
            gpu_envs.make(f"Bad-v{number}")
    for bad in (5, "", "a b", "x\0y", ".relative"):
        with pytest.raises(errors.ConfigError, match="register: module: expected the import path of a module, got"):
            gpu_envs.register("Bad-v9", bad)


def test_messages_are_one_line_of_limited_length():
    text = str(errors.ConfigError("first\n    second " + 10**4 * "x" + " last"))
    assert text.startswith("first second xxx")
    assert text.endswith(" last")
    assert len(text) <= 1000
