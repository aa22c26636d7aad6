"""Bad input gets one clear line of its own type, before anything runs."""

import importlib
import re

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from messages import one_line

import gpu_envs
from gpu_envs import errors
from gpu_envs.runtime.factory import make_core


def test_unknown_id():
    with pytest.raises(errors.UnknownEnvironmentError) as info:
        gpu_envs.make("SimpleTagg-v0")
    one_line(info, "SimpleTagg-v0", "did you mean SimpleTag-v0")


@pytest.mark.parametrize(
    "name", ["Foraging-2s-8x8-2p-2f-coop-v3", "rware-tiny-2ag-v2", "Hanabi-Small", "Hanabi-Full-CardKnowledge"]
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
    ],
)
def test_name_of_an_original_names_the_environment_here(name, env_id):
    with pytest.raises(errors.UnknownEnvironmentError, match=f"did you mean {env_id}\\?$"):
        gpu_envs.make(name)


def test_environment_larger_than_memory_raises():
    words = r"^TagContinuous-v0: \w+ \(100000000, .*\) takes .* GB, more than cpu has left: use fewer worlds"
    with pytest.raises(errors.ConfigError, match=words) as caught:
        make_core("TagContinuous-v0", 100_000_000, "cpu")
    assert "\n" not in str(caught.value)


def test_observations_that_kernels_cannot_address_raise():
    words = r"^TagContinuous-v0: obs \(1, 100005, \d+\): expected rows of at most 2.15 GB, .*, got 280 GB: use fewer"
    with pytest.raises(errors.ConfigError, match=words) as caught:
        make_core("TagContinuous-v0", 1, "cpu", num_runners=100_000, use_full_observation=True)
    assert "\n" not in str(caught.value)


def test_id_with_and_without_namespace():
    assert gpu_envs.make("gpu_envs/SimpleTag-v0").core.id == gpu_envs.make("SimpleTag-v0").core.id == "SimpleTag-v0"


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
        ({"num_agent_neighbors": 0}, ("num_agent_neighbors: expected an int >= 1, or None", "got 0")),
        ({"num_agent_neighbors": 1.5}, ("num_agent_neighbors", "an int >= 1, or None", "1.5")),
        ({"num_agent_neighbors": 2**31}, ("an int >= 1 of at most 1048576 in size, or None", "2147483648")),
        ({"continuous_actions": "yes"}, ("continuous_actions", "True or False", "'yes'")),
        ({"num_envs": 0}, ("num_envs", "an int", "got 0")),
        ({"num_envs": True}, ("num_envs", "an int")),
        ({"num_good": 2**31}, ("num_good", "an int >= 1 of at most 1048576", "2147483648")),
        ({"num_good": 10**400}, ("num_good", "at most 1048576")),
        ({"max_episode_steps": 2**31}, ("max_episode_steps", "[1, 2147483647]", "2147483648")),
        ({"autoreset": "sometimes"}, ("autoreset", "'same_step'", "'sometimes'")),
        ({"autoreset": ["same_step"]}, ("autoreset", "'same_step'", "['same_step']")),
        ({"autoreset": {}}, ("autoreset", "'same_step'", "{}")),
        ({"schedule": "both"}, ("schedule", "'fused'")),
        ({"threads": 0}, ("threads",)),
        ({"threads": True}, ("threads", "an int >= 1")),
        ({"num_envs": 2**31}, ("num_envs", "2147483647")),
        ({"env_offset": -1}, ("env_offset", "[0,")),
        ({"env_offset": 2**31 - 2, "num_envs": 2}, ("env_offset", "num_envs")),
        ({"illegal_actions": "loss"}, ("illegal_actions", "take turns")),
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
        ("TagContinuous-v0", {"max_turn": 10**400}, ("max_turn", "finite number")),
        ("TagContinuous-v0", {"num_other_agents_observed": 257}, ("num_other_agents_observed", "[1, 256]", "257")),
        ("TagContinuous-v0", {"x": "abc"}, ("starting_location_x: expected a list of finite numbers", "'abc'")),
        ("TagContinuous-v0", {"x": [0.5, None]}, ("starting_location_x[1]", "finite number", "None")),
        ("TagContinuous-v0", {"x": [0.5, "1"]}, ("starting_location_x[1]", "finite number", "'1'")),
        ("TagContinuous-v0", {"x": [[0.5], [1]]}, ("starting_location_x[0]", "finite number", "[0.5]")),
        ("TagContinuous-v0", {"x": [0.5, float("nan")]}, ("starting_location_x[1]", "finite number", "nan")),
        ("TagContinuous-v0", {"x": [0.5, 20.5]}, ("starting_location_x[1]", "[0, 20.0]", "20.5")),
        ("TagContinuous-v0", {"y": [-0.5, 20]}, ("starting_location_y[0]", "[0, 20.0]", "-0.5")),
        ("TagContinuous-v0", {"angle": [0, float("inf")]}, ("starting_directions[1]", "finite number", "inf")),
        ("TagGridworld-v0", {"x": [1, 1.5]}, ("starting_location_x[1]", "an int", "1.5")),
        ("TagGridworld-v0", {"x": [1, True]}, ("starting_location_x[1]", "an int", "True")),
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


def test_bad_frames(core):
    for envs in ((3,), (-1,), (), (0.5,), 3, None):
        with pytest.raises(errors.ConfigError) as info:
            core.render_frames(envs)
        one_line(info, "envs", "[0, 3)")
    for size in (0, 1.5):
        with pytest.raises(errors.ConfigError) as info:
            core.render_frames((0,), size)
        one_line(info, "size", ">= 1")


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


def test_set_state_without_a_dict_raises(core):
    with pytest.raises(errors.CheckpointError, match="a dict of tensors by name, got NoneType"):
        core.set_state(None)


def test_described_array_of_numpy_has_no_layout():
    assert errors.describe_tensor(np.zeros((2, 3))) == "float64 (2, 3) on cpu"
