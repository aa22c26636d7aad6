"""Wide words of a GPU's kernels: the code for GPUs, run on the CPU, gives the same numbers, bit for bit."""

from dataclasses import replace

import pytest
import torch

from gpu_envs.definition import struct_buffers
from gpu_envs.definition.registry import find, list_envs
from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.utils.settings import build_config
from warp_kernels.episode import IO
from warp_kernels.framework import wide_words

CPU = torch.device("cpu")


def play(definition):
    """Return all tensors after steps that end episodes: agents are observed in play, at ends and at starts."""
    core = Core(definition, env_id="words", config={}, num_envs=5, device=CPU, seed=3, schedule="fused", threads=1)
    core.reset()
    for _ in range(7):
        core.step(core.sample_actions())
    return {name: tensor.clone() for name, tensor in core._buffers.saved_tensors().items()}


QUICK = ("SimpleTag-v0", "SimpleSpread-v0")  # rows of words of 16 and of 8 bytes


@pytest.mark.parametrize(
    "env_id", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in list_envs()]
)
def test_code_for_gpus_gives_the_same_numbers(env_id, monkeypatch):
    config, build = find(env_id).load()
    definition = replace(build(build_config(config, {}, env_id)), max_episode_steps=3)
    rules = definition.rules
    if env_id in QUICK:
        assert wide_words.observe_in_words(rules) is not rules.observe
    expected = play(definition)
    monkeypatch.setattr(wide_words, "ON_GPU", "1")
    actual = play(replace(definition, rules=replace(rules, key=f"{rules.key} in wide words")))
    assert actual.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(actual[name], tensor, rtol=0.0, atol=0.0, equal_nan=True)
    assert env_id not in QUICK or expected["io.obs"].any()


@pytest.mark.parametrize(("width", "word"), [(16, 16), (18, 8), (127, 4), (520, 16)])
def test_words_divide_rows(width, word):
    assert wide_words.word_of(width) == word


def test_tensor_that_does_not_start_at_a_word_is_refused():
    obs = torch.zeros(9)[1:].view(2, 2, 2)
    with pytest.raises(ConfigError, match="choice: expected a tensor that starts at a multiple of 16 bytes, got one 4"):
        struct_buffers.fill(IO, dict.fromkeys(IO.vars, obs))
