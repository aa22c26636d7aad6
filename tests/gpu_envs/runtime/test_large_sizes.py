"""Sizes are refused before spaces are built and memory is allocated by them."""

import dataclasses
import json
import re
import subprocess
import sys
import typing

import pytest
import torch

import gpu_envs
from gpu_envs import errors
from gpu_envs.definition import struct_buffers
from gpu_envs.definition.environment import roster
from gpu_envs.definition.registry import find, list_envs
from gpu_envs.runtime.factory import configured_definition

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


def test_largest_value_of_every_setting_raises_or_allocates_nothing():
    settings = []
    for env_id in list_envs():
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


def test_make_with_too_large_observations_raises_at_once():
    with pytest.raises(errors.ConfigError, match=r"^SimpleTag-v0: obs \(1, 1000003, \d+\): expected rows of at most"):
        gpu_envs.make("SimpleTag-v0", num_good=10**6)


def test_more_worlds_than_memory_holds_raise_before_any_is_allocated(env_id, small_core, monkeypatch):
    monkeypatch.setattr(struct_buffers, "memory", lambda device: 1e9)
    monkeypatch.setattr(torch, "zeros", lambda *_, **__: pytest.fail("memory is allocated"))
    with pytest.raises(errors.ConfigError, match=rf"^{env_id}: .* GB, more than cpu has left|rows of at most"):
        small_core(env_id, 2**31 - 1)


def test_agents_of_a_group_share_their_spaces():
    crowd = roster({"a": 3, "none": 0, "b": 2}, {"a": 4, "none": 1, "b": 5}, dict.fromkeys(("a", "none", "b")))
    assert crowd["agents"] == ("a_0", "a_1", "a_2", "b_0", "b_1")
    assert crowd["groups"] == {"a": (0, 1, 2), "b": (3, 4)}
    spaces = crowd["observation_spaces"]
    assert spaces["a_0"] is spaces["a_2"]
    assert spaces["b_1"].shape == (5,)
    definition = configured_definition("TagContinuous-v0", None, {"num_runners": 100_000})[2]
    assert len(definition.observation_spaces) == 100_005
