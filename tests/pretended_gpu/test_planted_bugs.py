"""Mistakes that only a GPU shows are found: each one is planted in the product by replacing one function."""

import pytest
import torch

from gpu_envs.runtime.core import Core
from pretended_gpu.runs import FEW_STEPS, assert_equal_runs, configuration, train
from trainers.buffers.rollout_buffer import RolloutBuffer
from trainers.models.normalization import ObservationNormalizer

END_STEP, BEGIN_STEP, REWIND = RolloutBuffer.end_step, RolloutBuffer.begin_step, RolloutBuffer.rewind
NORMALIZE, CAPTURE = ObservationNormalizer.forward, Core.capture


def read_at_the_end_of_a_rollout(self, transition):
    END_STEP(self, transition)
    if self.t == self.length:
        self.final_count.item()


def tensor_of_the_cpu_in_the_normalizer(self, obs):
    return NORMALIZE(self, obs) + torch.zeros(obs.shape[-1])


def counter_in_python(self, transition):
    END_STEP(self, transition)
    self.rewards_stored = getattr(self, "rewards_stored", 0) + 1
    self.reward[self.t - 1].mul_(0.99**self.rewards_stored)


def new_buffer_in_rewind(self):
    REWIND(self)
    self.reward = torch.zeros_like(self.reward)


def generators_that_are_not_registered(self, play, generators=()):
    return CAPTURE(self, play)


def list_as_index(self, obs, *inputs):
    return BEGIN_STEP(self, obs[:, [*range(obs.shape[1])]], *inputs)


PLANTED = [
    (RolloutBuffer, "end_step", read_at_the_end_of_a_rollout, r"capturing: synchronization by _local_scalar_dense at"),
    (ObservationNormalizer, "forward", tensor_of_the_cpu_in_the_normalizer, r"add: Expected all tensors .* found cuda"),
    (RolloutBuffer, "end_step", counter_in_python, r"entries of the state differ"),
    (RolloutBuffer, "rewind", new_buffer_in_rewind, r"the graph uses freed memory"),
    (Core, "capture", generators_that_are_not_registered, r"the generator is not registered with the CUDA graph"),
    (RolloutBuffer, "begin_step", list_as_index, r"capturing: copy from cpu to cuda:0 at"),
]


@pytest.mark.parametrize(
    ("owner", "name", "replacement", "message"), PLANTED, ids=[replacement.__name__ for *_, replacement, _ in PLANTED]
)
def test_planted_bug_is_found(owner, name, replacement, message, gpu, monkeypatch, tmp_path):
    monkeypatch.setattr(owner, name, replacement)
    settings = {"env_id": "CartPole-v1", "algorithm": "ppo", "learner": FEW_STEPS, "eval_episodes": 0}
    expected = train(configuration(device="cpu", **settings), tmp_path / "cpu")  # the CPU does not show it
    with pytest.raises((RuntimeError, AssertionError), match=message):
        assert_equal_runs(expected, train(configuration(device="cuda:0", **settings), tmp_path / "gpu"))
