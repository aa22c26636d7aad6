"""Sizes are refused before spaces are built and memory is allocated by them."""

import dataclasses
import json
import re
import subprocess
import sys
import typing

import pytest
import torch
import warp as wp
from small_environments import REPRESENTATIVES

import gpu_envs
from gpu_envs import errors
from gpu_envs.definition import struct_buffers
from gpu_envs.definition.environment import roster
from gpu_envs.definition.registry import find, list_envs
from gpu_envs.runtime.factory import configured_definition
from gpu_envs.utils.devices import warp_array

pytestmark = pytest.mark.representative


@wp.struct
class Large:
    few: wp.array2d(dtype=float)
    many: wp.array2d(dtype=float)


NUMBERS = (int, float, int | None, float | None)

LARGEST = """
import json, resource, sys, time
from gpu_envs.runtime import factory
from gpu_envs.errors import ConfigError
from gpu_envs.definition.registry import find

settings = json.loads(sys.argv[1])
for env_id, _ in settings:
    find(env_id).load()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
resource.setrlimit(resource.RLIMIT_DATA, (2**30 + 1024 * before,) * 2)
for env_id, config in settings:
    start, verdict = time.process_time(), "accepted"
    try:
        factory.configured_definition(env_id, None, config)
    except ConfigError as error:
        verdict = str(error)
        assert verdict.startswith(env_id), verdict
        assert chr(10) not in verdict, verdict
    taken, more = time.process_time() - start, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert taken < 1.0, (env_id, config, taken)
    assert more < 200.0, (env_id, config, more)
    print(env_id, *config, verdict, sep="|")
"""


@pytest.mark.parametrize(
    "env_ids",
    [
        REPRESENTATIVES,
        pytest.param([env_id for env_id in list_envs() if env_id not in REPRESENTATIVES], marks=pytest.mark.slow),
    ],
    ids=["representatives", "others"],
)
def test_largest_value_of_every_setting_raises_or_allocates_nothing(env_ids):
    settings = []
    for env_id in env_ids:
        kind, _ = find(env_id).load()
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            if hints[field.name] in NUMBERS:
                settings.append((env_id, {field.name: 2**31 - 1}))
    settings += [("SimpleTag-v0", {"num_good": 10**6}), ("TagGridworld-v0", {"num_taggers": 10**6})]
    settings += [("TagContinuous-v0", {"num_taggers": 2**20, "num_runners": 2**20})]
    settings += [("TagContinuous-v0", {"num_runners": 10**5, "use_full_observation": True})]
    argv = [sys.executable, "-c", LARGEST, json.dumps(settings)]
    run = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    verdicts = dict(line.rsplit("|", 1) for line in run.stdout.splitlines())
    assert len(verdicts) > 40
    steps = re.compile(r"\|(max_cycles|max_episode_steps|episode_length|num_repetitions)$")
    for setting, verdict in verdicts.items():
        if steps.search(setting):
            assert verdict == "accepted", setting
        if re.search(r"\|(N|num_.*|grid_length|rows|columns|x_in_row)$", setting) and "num_repetitions" not in setting:
            assert "accepted" not in verdict or setting == "TagContinuous-v0|grid_length", setting


def test_more_worlds_than_memory_holds_raise_before_any_is_allocated(env_id, small_core, monkeypatch):
    monkeypatch.setattr(struct_buffers, "memory", lambda device: 1e9)
    monkeypatch.setattr(torch, "zeros", lambda *_, **__: pytest.fail("memory is allocated"))
    with pytest.raises(errors.ConfigError, match=rf"^{env_id}: .* GB, more than cpu has left|rows of at most"):
        small_core(env_id, 2**31 - 1)


def test_agents_of_a_group_share_their_spaces():
    definition = roster({"a": 3, "none": 0, "b": 2}, {"a": 4, "none": 1, "b": 5}, dict.fromkeys(("a", "none", "b")))
    assert definition["agents"] == ("a_0", "a_1", "a_2", "b_0", "b_1")
    assert definition["groups"] == {"a": (0, 1, 2), "b": (3, 4)}
    spaces = definition["observation_spaces"]
    assert spaces["a_0"] is spaces["a_2"]
    assert spaces["b_1"].shape == (5,)
    definition = configured_definition("TagContinuous-v0", None, {"num_runners": 100_000})[2]
    assert len(definition.observation_spaces) == 100_005


@wp.struct
class Arrays:
    rows: wp.array2d(dtype=float)
    points: wp.array2d(dtype=wp.vec3)


LIMIT = 2**31 - 1  # of a stride [bytes]


@pytest.mark.parametrize(
    ("rows", "points", "refused"),
    [
        ((2, LIMIT // 4), (2, 1), None),
        ((2, LIMIT // 4 + 1), (2, 1), "rows"),
        ((2, 1), (2, LIMIT // 12), None),
        ((2, 1), (2, LIMIT // 12 + 1), "points"),
        ((1, LIMIT // 4 + 1), (1, 1), "rows"),  # Warp stores the stride of a single row too
    ],
)
def test_strides_beyond_32_bits_raise_before_memory_is_allocated(rows, points, refused):
    def allocate():
        return struct_buffers.allocate(Arrays, {"rows": rows, "points": points}, torch.device("meta"))

    if refused is None:
        tensors = allocate()
        assert max(t.stride(0) * t.element_size() for t in tensors.values()) <= LIMIT
        return
    with pytest.raises(errors.ConfigError, match=rf"^{refused} \(.*\): expected rows of at most 2.15 GB.*got 2.15 GB"):
        allocate()


@pytest.mark.parametrize("stride", [LIMIT // 4 * 4, LIMIT // 4 * 4 + 4])
def test_every_array_of_warp_has_strides_of_32_bits(stride):
    """Warp cuts larger strides off without an error. The check also holds for views that `allocate` did not make."""
    tensor = torch.empty(4).as_strided((1, 1), (stride // 4, 1))
    if stride > LIMIT:
        with pytest.raises(errors.ConfigError, match=r"^wide \(1, 1\): expected rows of at most 2.15 GB"):
            warp_array(tensor, name="wide")
    else:
        assert warp_array(tensor, name="wide").strides == (stride, 4)


def test_most_agents_with_full_observations_fit_and_one_more_names_the_settings():
    """The row of a world holds about 28 bytes per pair of agents."""

    def definition(agents):
        settings = {"num_runners": agents - 5, "use_full_observation": True}
        return configured_definition("TagContinuous-v0", None, settings)[2]

    largest = 8758
    width = definition(largest).observation_spaces["runner_0"].shape[0]
    assert largest * width * 4 <= LIMIT
    words = r"^TagContinuous-v0: obs \(1, 8759, \d+\): .* use fewer .*; the settings are num_runners=8754, use_full_ob"
    with pytest.raises(errors.ConfigError, match=words):
        definition(largest + 1)


def test_memory_error_names_the_number_of_environments(monkeypatch):
    monkeypatch.setattr(struct_buffers, "memory", lambda device: 1e6)
    with pytest.raises(
        errors.ConfigError, match=r"has left: use fewer .*; the settings are num_envs=90000, max_cycles=7$"
    ):
        gpu_envs.make("SimpleTag-v0", num_envs=90_000, device="cpu", max_cycles=7)


def test_large_tensors_of_a_cpu_are_on_memory_of_their_own(monkeypatch):
    """Huge pages, where the system has them; otherwise torch allocates, and reports that there is no memory."""
    rows = struct_buffers.HUGE_PAGE // 8

    def allocate():
        shapes = {"few": (rows - 1, 2), "many": (rows, 2)}
        return struct_buffers.allocate(Large, shapes, torch.device("cpu"))

    tensors = allocate()
    for name, tensor in tensors.items():
        assert tensor.shape == ((rows, 2) if name == "many" else (rows - 1, 2))
        assert tensor.is_contiguous()
        assert not tensor.any()
        tensor += 1.0
        assert tensor.sum() == tensor.numel()

    def no_memory(*args, **options):
        raise OSError("no memory")

    monkeypatch.setattr(struct_buffers.mmap, "mmap", no_memory)
    assert not allocate()["many"].any()
