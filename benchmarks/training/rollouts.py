"""Rollouts with a policy as subjects of an alternating run: in kernels, or with PyTorch between the steps."""

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from gpu_envs.runtime.core import Core
from gpu_envs.runtime.factory import make_core
from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from gpu_envs.runtime.rollout.policy_rollout import PolicyRollout
from gpu_envs.runtime.rollout.trace import RolloutTrace
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.runner.collector import Collector
from trainers.runner.learner_group import LearnerGroup

HIDDEN = (64, 64)
"""Widths of the hidden layers."""
LENGTH = 25
"""Steps of a rollout."""
SEED = 1

Layers = list[tuple[Tensor, Tensor]]
"""Weight (out, in) and bias (out,) of every layer."""


def make_rollout(
    env_id: str, num_envs: int, interface: str, threads: int, torch_threads: int
) -> tuple[Callable[[], None], Core]:
    """Return a function that plays a rollout of `LENGTH` steps and stores it, and its environments.

    Args:
        env_id: ID of an environment with discrete actions that are always legal.
        num_envs: Number of worlds.
        interface: "kernels", `Core.rollout` with prepared launches; "torch", networks without autograd between steps;
            or "collector", the rollouts of a training with `engine = "torch"`.
        threads: Number of threads of the environments, and of the policies in kernels.
        torch_threads: Number of threads of PyTorch.
    """
    play, core = INTERFACES[interface](env_id, num_envs, threads)

    def rollout() -> None:
        previous = torch.get_num_threads()
        torch.set_num_threads(torch_threads)
        try:
            play()
        finally:
            torch.set_num_threads(previous)

    return rollout, core


def networks(core: Core) -> dict[str, Layers]:
    """Return an untrained network for every group of agents, equal in all interfaces."""
    generator, layers = torch.Generator().manual_seed(SEED), {}
    for group, rows in core.groups.items():
        space: Any = core.action_spaces[core.possible_agents[rows[0]]]
        sizes = (core.obs_width, *HIDDEN, int(space.n))
        layers[group] = [
            (torch.randn(m, n, generator=generator) / n**0.5, torch.zeros(m)) for n, m in itertools.pairwise(sizes)
        ]
    return layers


def _kernels(env_id: str, num_envs: int, threads: int) -> tuple[Callable[[], object], Core]:
    core = _core(env_id, num_envs, threads)
    policies = {
        group: KernelPolicy.from_tensors(layers, core.action_spaces[core.possible_agents[core.groups[group][0]]])
        for group, layers in networks(core).items()
    }
    index = torch.full((core.num_agents,), -1)
    for number, rows in enumerate(core.groups.values()):
        index[list(rows)] = number
    plan = PolicyRollout(core, list(policies.values()), index, RolloutTrace.allocate(core, LENGTH, 1), threads)
    return lambda: core.rollout(plan, LENGTH), core


def _between_steps(env_id: str, num_envs: int, threads: int) -> tuple[Callable[[], object], Core]:
    core = _core(env_id, num_envs, threads)
    groups = [(slice(rows[0], rows[-1] + 1), networks(core)[group]) for group, rows in core.groups.items()]
    shape = (LENGTH, core.num_envs, core.num_agents)
    obs = torch.zeros(*shape, core.obs_width)
    action, log_prob = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape)
    reward, flags = torch.zeros(shape), torch.zeros(2, *shape, dtype=torch.bool)
    latest = core.reset(seed=SEED)[0]

    @torch.inference_mode()
    def play() -> None:
        for t in range(LENGTH):
            obs[t] = latest
            for rows, layers in groups:
                hidden = latest[:, rows]
                for weight, bias in layers[:-1]:
                    hidden = functional.linear(hidden, weight, bias).tanh_()
                logits = functional.linear(hidden, *layers[-1])
                # The largest of logits with Gumbel noise is a sample; torch.multinomial is slower.
                noise = torch.empty_like(logits).exponential_().log_()
                chosen = (logits - noise).argmax(-1, keepdim=True)
                action[t, :, rows] = chosen.squeeze(-1)
                log_prob[t, :, rows] = (logits.gather(-1, chosen) - logits.logsumexp(-1, keepdim=True)).squeeze(-1)
            _, reward[t], flags[0, t], flags[1, t], _ = core.step(action[t])

    return play, core


def _collector(env_id: str, num_envs: int, threads: int) -> tuple[Callable[[], object], Core]:
    settings = PPOConfig(rollout_length=LENGTH, hidden_sizes=HIDDEN)
    config = TrainConfig(env_id, num_envs=num_envs, engine="torch", learner=settings)
    core = make_train_core(config, num_envs, SEED, threads=threads)
    collector = Collector(config, core, LearnerGroup(config, core))
    learners: list[Any] = [assignment.learner for assignment in collector.learners.assignments.values()]

    def play() -> None:
        for learner in learners:
            learner.rollout.clear()
        collector.collect()

    return play, core


def _core(env_id: str, num_envs: int, threads: int) -> Core:
    core = make_core(env_id, num_envs, "cpu", seed=SEED, threads=threads, reuse_buffers=True)
    core.reset(seed=SEED)
    return core


INTERFACES = {"kernels": _kernels, "torch": _between_steps, "collector": _collector}
