"""Bad input gets one clear line of its own type, before anything runs; more of it in `test_fuzz.py`."""

import importlib
import re

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from messages import one_line

import gpu_envs
from gpu_envs import errors, wrappers
from gpu_envs.runtime.factory import make_core


def test_unknown_id():
    with pytest.raises(errors.UnknownEnvironmentError) as info:
        gpu_envs.make("SimpleTagg-v0")
    one_line(info, "SimpleTagg-v0", "did you mean SimpleTag-v0")


@pytest.mark.parametrize(
    "name",
    ["Foraging-2s-8x8-2p-2f-coop-v3", "rware-tiny-2ag-v2", "Hanabi-Small", "Hanabi-Full-CardKnowledge", "con-5x5x3a"],
)
def test_unknown_id_of_an_original_names_the_settings_here(name):
    with pytest.raises(errors.UnknownEnvironmentError) as info:
        gpu_envs.make(name)
    one_line(info, f"no environment named '{name}'", "did you mean")
    match = re.search(r"did you mean (\S+) with the settings of (\S+)\.original_settings\('(\S+)'\)\?", str(info.value))
    assert match is not None
    settings = importlib.import_module(match[2]).original_settings(match[3])
    assert gpu_envs.make(match[1], device="cpu", **settings).num_envs == 1


@pytest.mark.parametrize(
    ("name", "env_id"),
    [
        ("LBF-v0", "LevelBasedForaging-v0"),
        ("lbforaging", "LevelBasedForaging-v0"),
        ("Foraging-8x8-2p-2f-v2", "LevelBasedForaging-v0"),
        ("RWARE", "RobotWarehouse-v0"),
        ("rware-tiny-2ag-v1", "RobotWarehouse-v0"),
        ("gpu_envs/rware-v0", "RobotWarehouse-v0"),
        ("HLE", "Hanabi-v0"),
        ("hanabi_v5", "Hanabi-v0"),
        ("overcooked_ai", "Overcooked-v0"),
        ("overcooked_v2", "OvercookedV2-v0"),
        ("Connector-v3", "Connector-v0"),
        ("pursuit_v4", "Pursuit-v0"),
        ("sisl/pursuit-v5", "Pursuit-v0"),
        ("harvest_common_open", "CommonsHarvest-v0"),
    ],
)
def test_name_of_an_original_names_the_environment_here(name, env_id):
    with pytest.raises(errors.UnknownEnvironmentError, match=f"did you mean {env_id}\\?$"):
        gpu_envs.make(name)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_good": 0}, ("num_good", ">= 1", "0")),
        ({"num_good": 1.5}, ("num_good", "an int", "1.5")),
        (
            {"max_cycles": 5, "max_episode_steps": 6},
            ("expected one of max_episode_steps and max_cycles, got both", "give max_episode_steps"),
        ),
        ({"num_god": 2}, ("num_god", "did you mean num_good")),
        ({"num_env": 2}, ("num_env", "did you mean num_envs?")),
        ({"render_mod": "human"}, ("render_mod", "did you mean render_mode?")),
        ({"confi": 2}, ("confi", "expected one of ")),
        ({"devices": ["cpu", "cpu"]}, ("'devices'; run one process per GPU, with device='cuda:N' and env_offset=",)),
        ({"env_contiguous": True}, ("'env_contiguous'; leave it out",)),
        ({"num_agent_neighbors": 2**31}, ("an int >= 1 of at most 1048576 in size, or None", "2147483648")),
        ({"continuous_actions": "yes"}, ("continuous_actions", "True or False", "'yes'")),
        ({"num_good": 2**31}, ("num_good", "an int >= 1 of at most 1048576", "2147483648")),
        ({"max_episode_steps": 2**31}, ("max_episode_steps", "[1, 2147483647]", "2147483648")),
        ({"autoreset": "sometimes"}, ("autoreset", "'same_step'", "'sometimes'")),
        ({"autoreset": ["same_step"]}, ("autoreset", "'same_step'", "['same_step']")),
        ({"threads": True}, ("threads", "an int in [1,")),
        ({"env_offset": 2**31 - 2, "num_envs": 2}, ("env_offset", "[0, 2147483645]")),
        ({"illegal_actions": "loss"}, ("illegal_actions='loss'", "agents that take turns", "'saturate'")),
        ({"seed": "abc"}, ("seed", "'abc'")),
        ({"render_mode": "ascii"}, ("render_mode", "'rgb_array'")),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(errors.ConfigError) as info:
        gpu_envs.make("SimpleTag-v0", **settings)
    one_line(info, *words)


@pytest.mark.parametrize(
    ("env_id", "settings", "words"),
    [
        ("TagContinuous-v0", {"grid_length": 1e300}, ("grid_length", "finite number", "3.402823466e+38", "1e+300")),
        ("TagContinuous-v0", {"num_other_agents_observed": 257}, ("num_other_agents_observed", "[1, 256]", "257")),
        ("TagContinuous-v0", {"x": "abc"}, ("starting_location_x: expected a list of finite numbers", "'abc'")),
        ("TagContinuous-v0", {"x": [0.5, float("nan")]}, ("starting_location_x[1]", "finite number", "nan")),
        ("TagContinuous-v0", {"x": [0.5, 20.5]}, ("starting_location_x[1]", "[0, 20.0]", "20.5")),
        ("TagGridworld-v0", {"x": [1, 1.5]}, ("starting_location_x[1]", "an int", "1.5")),
        ("TagGridworld-v0", {"y": [11, 1]}, ("starting_location_y[0]", "[0, 10]", "11")),
        ("TagGridworld-v0", {"y": 3}, ("starting_location_y: expected a list of ints", "3")),
    ],
)
def test_numbers_out_of_the_kernels_range_raise(env_id, settings, words):
    names = {"x": "starting_location_x", "y": "starting_location_y", "angle": "starting_directions"}
    if settings.keys() & names.keys():
        settings = {names[key]: value for key, value in settings.items()}
        fine = {name: [1, 1] for name in list(names.values())[: 3 if env_id == "TagContinuous-v0" else 2]}
        counts = {"num_taggers": 1} | ({"num_runners": 1} if env_id == "TagContinuous-v0" else {})
        make_core(env_id, 1, "cpu", **counts, **fine)
        settings = {**counts, **fine, **settings}
    with pytest.raises(errors.ConfigError) as info:
        make_core(env_id, 1, "cpu", **settings)
    one_line(info, env_id, *words)


def test_autoreset_in_gymnasiums_words():
    for mode, word in ((AutoresetMode.SAME_STEP, "same_step"), (AutoresetMode.NEXT_STEP, "next_step")):
        assert make_core("SimpleTag-v0", 1, "cpu", autoreset=mode).autoreset == word
    assert make_core("SimpleTag-v0", 1, "cpu", autoreset=AutoresetMode.DISABLED).autoreset == "disabled"


def test_rules_between_settings():
    with pytest.raises(errors.ConfigError) as info:
        gpu_envs.make("TagContinuous-v0", min_turn=1.0, max_turn=0.0)
    one_line(info, "min_turn", "TagContinuous-v0")
    with pytest.raises(errors.ConfigError) as info:
        gpu_envs.make("TagContinuous-v0", starting_location_x=(1.0,))
    one_line(info, "starting_location_x", "105")
    with pytest.raises(errors.ConfigError) as info:
        gpu_envs.make("TagContinuous-v0", time_limit="never")
    one_line(info, "time_limit", "'termination'", "'never'")


def test_unavailable_devices_raise():
    for device, words in (("cuda:99", ("cuda:99",)), ("tpu", ("'tpu'",)), ("meta", ("'meta'",))):
        with pytest.raises(errors.DeviceError) as info:
            gpu_envs.make("SimpleTag-v0", device=device)
        one_line(info, *words)


@pytest.fixture
def core():
    core = make_core("SimpleTag-v0", 3, "cpu", seed=0)
    core.reset()
    return core


@pytest.mark.parametrize(
    "action",
    [
        torch.zeros((3, 3), dtype=torch.int64),
        torch.zeros((3, 4, 1), dtype=torch.int64),
        torch.zeros((3, 4), dtype=torch.int32),
        torch.zeros((3, 4)),
        torch.zeros((3, 4), dtype=torch.int64, device="meta"),
        [[0, 0, 0, 0]] * 3,
        None,
    ],
)
def test_action_of_wrong_shape_or_type_raises(core, action):
    state = core.get_state()
    with pytest.raises(errors.ActionError) as info:
        core.step(action)
    one_line(info, "SimpleTag-v0", "torch.int64", "(3, 4)", "cpu")
    after = core.get_state()
    assert all(torch.equal(state[name], after[name]) for name in state)


@pytest.mark.parametrize("threads", [1, 3])
def test_out_of_range_names_the_lowest_world_and_counts_as_no_op(threads):
    bad, good = (make_core("SimpleTag-v0", 9, "cpu", seed=0, threads=threads) for _ in range(2))
    bad.reset()
    good.reset()
    action = good.sample_actions()
    wrong = action.clone()
    wrong[7, 0], wrong[4, 2], wrong[8, 3] = 5, -1, 10**12
    action[7, 0], action[4, 2], action[8, 3] = 0, 0, 0
    with pytest.raises(errors.ActionError) as info:
        bad.step(wrong)
    one_line(info, "-1", "adversary_2", "world 4", "out of range", "Discrete(5)")
    good.step(action)
    assert torch.equal(bad.obs, good.obs)
    bad.step(action)  # the flag is cleared


@pytest.mark.parametrize(
    ("value", "word"),
    [(float("nan"), "not finite"), (float("inf"), "not finite"), (1.5, "out of range"), (-0.1, "out of range")],
)
def test_continuous_actions(value, word):
    core = make_core("SimpleTag-v0", 2, "cpu", seed=0, continuous_actions=True)
    core.reset()
    action = core.sample_actions()
    action[1, 3, 2] = value
    with pytest.raises(errors.ActionError) as info:
        core.step(action)
    one_line(info, "agent_0", "world 1", word, "Box(0.0, 1.0, (5,)")


def test_dict_actions_name_the_agent():
    env = gpu_envs.make("SimpleTag-v0", num_envs=2, device="cpu", seed=0)
    env.reset()
    actions = env.sample_actions()
    for change, words in (
        ({"agent_0": torch.zeros(3, dtype=torch.int64)}, ("agent_0", "(2,)", "(3,)")),
        ({"adversary_1": torch.zeros(2)}, ("adversary_1", "torch.int64", "torch.float32")),
        ({"agent_99": torch.zeros(2, dtype=torch.int64)}, ("agent_99",)),
    ):
        with pytest.raises(errors.ActionError) as info:
            env.step({**actions, **change})
        one_line(info, *words)
    del actions["agent_0"]
    with pytest.raises(errors.ActionError) as info:
        env.step(actions)
    one_line(info, "agent_0")
    with pytest.raises(errors.ActionError) as info:
        env.step(env.core.sample_actions())
    one_line(info, "dict")


def test_step_before_reset_and_after_close():
    core = make_core("SimpleTag-v0", 2, "cpu")
    with pytest.raises(errors.ResetNeededError) as info:
        core.step(torch.zeros((2, 4), dtype=torch.int64))
    one_line(info, "reset()")
    with pytest.raises(errors.ResetNeededError) as info:
        core.reset(reset_mask=torch.tensor([True, False]))
    core.reset()
    core.close()
    for call in (core.reset, core.sample_actions, lambda: core.step(torch.zeros((2, 4), dtype=torch.int64))):
        with pytest.raises(errors.ResetNeededError) as info:
            call()
        one_line(info, "closed")


def test_bad_mask_and_seed(core):
    with pytest.raises(errors.ActionError) as info:
        core.reset(reset_mask=torch.ones(2, dtype=torch.bool))
    one_line(info, "reset_mask", "(3,)")
    with pytest.raises(errors.ConfigError) as info:
        core.reset(seed=1.5)
    one_line(info, "seed")


def test_state_of_another_environment_raises(core):
    other = make_core("SimpleTag-v0", 4, "cpu", seed=0)
    other.reset()
    with pytest.raises(errors.CheckpointError) as info:
        core.set_state(other.get_state())
    one_line(info, "num_envs")
    tag = make_core("TagGridworld-v0", 3, "cpu", seed=0)
    with pytest.raises(errors.CheckpointError) as info:
        core.set_state(tag.get_state())
    one_line(info, "another environment")
    with pytest.raises(errors.CheckpointError, match="a dict of tensors by name, got NoneType"):
        core.set_state(None)
    state = core.get_state()
    for name, value, words in (
        ("params", torch.zeros((2, 8)), ("params", "(1, 11)", "(3, 11)", "(2, 8)")),
        ("params", torch.zeros((1, 11), dtype=torch.int32), ("params", "torch.int32")),
        ("io.obs", 5, ("io.obs", "int")),
        ("state.pos", None, ("state.pos", "NoneType")),
    ):
        with pytest.raises(errors.CheckpointError) as info:
            core.set_state({**state, name: value})
        one_line(info, *words)
    assert all(torch.equal(state[name], tensor) for name, tensor in core.get_state().items()), "nothing was changed"


def test_register_refuses():
    for id, extra in (("Bad", {"module": "x"}), ("SimpleTag-v0", {"module": "x"}), ("New-v0", {})):
        with pytest.raises(errors.ConfigError) as info:
            gpu_envs.register(id, **extra)
        one_line(info, "register")


def test_valid_is_false_after_a_reset(core):
    core.step(core.sample_actions())
    _, info = core.reset(reset_mask=torch.tensor([True, False, True]))
    assert info["valid"].tolist() == [[False] * 4, [True] * 4, [False] * 4]
    assert not core.reset()[1]["valid"].any()


def test_capture_on_a_cpu_plays_and_needs_reused_buffers(core):
    with pytest.raises(errors.CaptureError) as info:
        core.capture(lambda: None)
    one_line(info, "reuse_buffers=True")
    fast = make_core("SimpleTag-v0", 2, "cpu", reuse_buffers=True)
    with pytest.raises(errors.ResetNeededError):
        fast.capture(lambda: None)
    fast.reset()
    replay = fast.capture(lambda: fast.step(fast.sample_actions()))
    replay()
    assert fast.elapsed_steps.tolist() == [1, 1]


def test_described_array_of_numpy_has_no_layout():
    assert errors.describe_tensor(np.zeros((2, 3))) == "float64 (2, 3) on cpu"


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
        (
            {"schedule": np.zeros(2)},
            errors.ConfigError,
            "schedule: expected one of 'fused', 'block', 'phased', or None",
        ),
        ({"seed": 10**5000}, errors.ConfigError, r"seed: expected an int in \[-2\*\*63, 2\*\*64\)"),
        ({"reuse_buffers": np.bool_(True)}, None, ""),
    ],
)
def test_wrong_settings_of_the_runner_are_refused_and_numpy_bools_taken(settings, error, words):
    arguments = {"num_envs": 1, "device": "cpu", **settings}
    if error is None:
        make_core("SimpleTag-v0", **arguments)
        return
    with pytest.raises(error, match=words):
        make_core("SimpleTag-v0", **arguments)


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
    for size in (0, 1.5):
        with pytest.raises(errors.ConfigError, match="size: expected an int >= 1, got"):
            core.render_frames((0,), size)
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
