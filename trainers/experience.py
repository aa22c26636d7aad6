"""What learners with a replay have in common: settings, storage, and small functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from trainers.bodies import BodyConfig
from trainers.heads import Head
from trainers.nets import ACTIVATIONS
from trainers.problem import Problem
from trainers.replay import Replay
from trainers.rollout import Rollout, final_rows
from trainers.settings import check_settings, setting


@dataclass(frozen=True)
class ReplayConfig(BodyConfig):
    """Settings of every learner with a replay. A "step" is one step of one world, whatever the number of its agents."""

    hidden: tuple[int, ...] = setting((256, 256), ">= 1")
    """Widths of the hidden layers."""
    activation: str = setting("relu", tuple(ACTIVATIONS))
    """"tanh" or "relu"."""
    rollout_length: int = setting(8, ">= 1")
    """Steps per world between two updates, T."""
    updates: int = setting(8, ">= 1")
    """Gradient steps of the critic per update."""
    replay_size: int = setting(1_000_000, ">= 1")
    """Steps that the replay keeps."""
    batch_size: int = setting(256, ">= 1")
    """Steps per gradient step, each with all agents of the policy."""
    learning_starts: int = setting(5_000, ">= 0")
    """Steps of uniformly random actions before the first gradient step."""
    learning_rate: float = setting(1e-3, "> 0")
    """Adam's step size."""
    gamma: float = setting(0.99, "in [0, 1]")
    """Discount per step."""
    tau: float = setting(0.005, "in [0, 1]")
    """How far target networks move towards their networks, per step of the policy."""
    max_grad_norm: float | None = setting(None, "> 0")
    """Gradients are scaled down to this global norm; never if None."""
    normalize_obs: bool = False
    """Normalise observations by running statistics over valid rows; the replay keeps them as they were."""
    reward_scale: float = setting(1.0, "> 0")
    """Multiplies rewards before learning: choose it so that returns are of order 1 to 100."""
    truncation_capacity: float | None = setting(None, "> 0")
    """Truncations per agent and rollout that the buffer of final observations has room for, on average over agents;
    if None, one more than the time limit can bring about, and at least 2."""

    def __post_init__(self) -> None:
        """Raises ConfigError on the first bad value."""
        check_settings(self, "learner.")
        if self.body == "gru":
            raise ConfigError("learner.body = 'gru': expected mlp or cnn; this algorithm learns from single steps")


class Experience:
    """The rollout under way and the replay that it goes to.

    The replay keeps steps as the environment gave them: observations and actions are normalised when they are drawn.
    Invalid rows are stored as zeros, so that nothing of them is ever read.
    """

    def __init__(self, config: ReplayConfig, problem: Problem, head: Head, joint: bool = False) -> None:
        """Allocates both; `joint` keeps all agents' observations and actions instead of the policy's own.

        Raises:
            ConfigError: The replay does not fit into memory, or agents take turns.
        """
        if problem.turns:
            raise ConfigError(
                "this algorithm needs agents that all move at every step; in games of turns use ppo or dqn"
            )
        shape = (problem.num_envs, problem.num_agents)
        self.config, self.joint, device = config, joint, torch.device(problem.device)
        self.rollout = Rollout(
            config.rollout_length,
            shape,
            problem.obs_width,
            head.action_shape,
            head.action_dtype,
            capacity=final_rows(
                config.rollout_length, problem.time_limit, shape[0] * shape[1], config.truncation_capacity
            ),
            device=device,
        )
        row = (problem.num_agents,)
        fields: dict[str, tuple[tuple[int, ...], torch.dtype]] = {"reward": (row, torch.float32)}
        fields |= dict.fromkeys(("terminated", "valid"), (row, torch.bool))
        if joint:
            widest = max(player.action_space.shape or () for player in problem.players)
            action = (len(problem.players), *widest)
            fields |= dict.fromkeys(("state", "next_state"), ((problem.state_width,), torch.float32))
            fields["joint_action"] = action, head.action_dtype
        else:
            fields |= dict.fromkeys(("obs", "next_obs"), ((*row, problem.obs_width), torch.float32))
            fields["action"] = ((*row, *head.action_shape), head.action_dtype)
            if problem.masked:
                fields |= dict.fromkeys(("mask", "next_mask"), ((*row, head.num_params), torch.bool))
        self.replay = Replay(config.replay_size, problem.num_envs, fields, device, config.rollout_length)

    def keep(self) -> None:
        """Moves the rollout to the replay (one host sync, see `Rollout.check`)."""
        r = self.rollout
        r.check()
        valid = r.valid
        reward = (self.config.reward_scale * r.reward).masked_fill(~valid, 0.0)
        steps = {"reward": reward, "terminated": r.terminated, "valid": valid}
        if self.joint:
            assert r.state is not None
            assert r.joint_action is not None
            steps |= {"state": r.state[:-1], "next_state": r.next_state(), "joint_action": r.joint_action[: r.length]}
        else:
            obs, next_obs = clean(r.obs, valid), clean(r.next_obs(), valid & ~r.terminated)
            steps |= {"obs": obs, "next_obs": next_obs, "action": clean(r.action, valid)}
            if r.mask is not None:
                # which actions were legal where an episode was cut is not known: such a step has no target
                steps["valid"] = valid & ~(r.truncated & ~r.terminated)
                steps |= {"mask": r.mask[:-1], "next_mask": r.mask[1:]}
        self.replay.add(steps)
        r.clear()

    def draw(self, generator: torch.Generator) -> dict[str, Tensor]:
        """Steps drawn uniformly from the replay, tensors (batch_size, ...) by name."""
        return self.replay.at(*self.replay.draw(self.config.batch_size, generator))


def clean(rows: Tensor, valid: Tensor) -> Tensor:
    """Rows (..., X) or (...) with zeros where they are not valid (...)."""
    return rows.masked_fill(~valid.view(*valid.shape, *[1] * (rows.dim() - valid.dim())), 0)


def means(found: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Means by name over what several gradient steps found, not all of them the same names."""
    by_name: dict[str, list[Tensor]] = {}
    for each in found:
        for name, value in each.items():
            by_name.setdefault(name, []).append(value)
    return {name: torch.stack(values).mean() for name, values in by_name.items()}
