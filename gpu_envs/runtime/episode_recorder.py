"""Recording of whole episodes of selected worlds, for replay and plots."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch

from gpu_envs.runtime import parameters
from gpu_envs.runtime.buffers import EnvBuffers
from gpu_envs.runtime.state_validation import check_episode

_RESULTS = ("reward", "terminated", "truncated", "valid")
STATES_PER_BATCH = 64
"""States that are drawn in one batch."""
_INPUTS = ("obs", "action_mask", "to_move")


@dataclass(frozen=True)
class Episode:
    """One episode of one world, T steps, on the CPU."""

    world: int
    """Global index of the world."""
    number: int
    """Number of earlier episodes of this world since it was seeded."""
    state: dict[str, torch.Tensor]
    """State of the rules before every step, by field: (T, ...)."""
    params: dict[str, float]
    """Environment parameters of this world."""
    obs: torch.Tensor
    """Observations before every step, (T, A, D)."""
    action: torch.Tensor
    """Actions as played, (T, A) or (T, A, K): the no-op for agents that had left and for illegal actions."""
    reward: torch.Tensor
    """Rewards, (T, A)."""
    terminated: torch.Tensor
    """Termination events, (T, A) bool."""
    truncated: torch.Tensor
    """Truncation events, (T, A) bool."""
    valid: torch.Tensor
    """Agents alive before the step, (T, A) bool."""
    action_mask: torch.Tensor | None = None
    """Legal choices, (T, A, n) bool; None where every choice is always legal."""
    to_move: torch.Tensor | None = None
    """Agents that decided, (T, A) bool; None where agents do not take turns."""

    def __len__(self) -> int:
        return len(self.reward)

    def tensors(self) -> dict[str, Any]:
        """Return all tensors by name, "state.*" for the fields of State; None for a missing one."""
        named = {name: getattr(self, name) for name in ("action", *_RESULTS, *_INPUTS)}
        return {f"state.{name}": values for name, values in self.state.items()} | named


class EpisodeRecorder:
    """Recorder of whole episodes, made by :meth:`gpu_envs.runtime.core.Core.record_episodes`.

    Use it in a ``with`` block, or close it. Recording does not synchronize with the device. Until :meth:`take`, memory
    grows with every step by some hundred bytes per agent.

    Args:
        env_id: ID of the environment, for messages.
        buffers: Buffers of the environment.
        envs: Indices of the worlds to record.
        env_offset: Global index of world 0.
        make_core: ``make_core(num_envs)`` returns a core of the same environment on the CPU, for :meth:`frames`.

    Attributes:
        envs: Indices of the recorded worlds.
        closed: Whether recording has stopped.
    """

    def __init__(
        self,
        env_id: str,
        buffers: EnvBuffers,
        envs: Sequence[int],
        env_offset: int,
        make_core: Callable[[int], Any],
    ) -> None:
        self.envs: tuple[int, ...] = tuple(envs)
        self.closed = False
        self._env_id, self._buffers, self._env_offset, self._make_core = env_id, buffers, env_offset, make_core
        self._rows = torch.tensor(self.envs, device=buffers.action.device)
        self._steps: list[dict[str, torch.Tensor]] = []
        self._previous: dict[str, torch.Tensor] = {}
        self._previous = self._snapshot()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop recording; recorded episodes stay available."""
        self.closed: bool = True

    def take(self) -> list[Episode]:
        """Return and remove the episodes that started and ended while recording, in the order of their ends."""
        self._steps = [{name: tensor.cpu() for name, tensor in step.items()} for step in self._steps]
        done: list[tuple[int, Episode]] = []
        running: list[set[int]] = [set() for _ in self._steps]  # rows of each step whose episode has not ended
        for row, env in enumerate(self.envs):
            line: list[int] = []
            for t, step in enumerate(self._steps):
                if not bool(step["valid"][row].any()):
                    continue  # a reset step, or a world that waits
                if bool(step["first"][row]):
                    line = []
                line.append(t)
                left = step["valid"][row] & ~(step["terminated"][row] | step["truncated"][row])
                if not bool(left.any()):
                    if bool(self._steps[line[0]]["first"][row]):
                        done.append((t, self._episode(row, env, line)))
                        self._steps[line[0]]["first"][row] = False  # these steps may stay, for another world
                    line = []
            for t in line:
                running[t].add(row)
        first = min((t for t, rows in enumerate(running) if rows), default=len(self._steps))
        self._steps = self._steps[first:]
        return [episode for _, episode in sorted(done, key=lambda pair: pair[0])]

    def frames(self, episode: Episode, size: int = 256) -> np.ndarray:
        """Draw every state of an episode: uint8 (T, size, size, 3).

        Raises:
            CheckpointError: The episode does not fit the environment.
        """
        check_episode(self._env_id, self._buffers, episode.tensors(), len(episode))
        core = self._make_core(min(len(episode), STATES_PER_BATCH))
        core.reset()
        fixed = self._buffers.definition.fixed_params
        core.set_params(**{name: value for name, value in episode.params.items() if name not in fixed})
        frames = []
        for first in range(0, len(episode), core.num_envs):
            part = slice(first, min(first + core.num_envs, len(episode)))
            rows = part.stop - part.start
            for name, values in episode.state.items():
                core.world_state[name][:rows] = values[part]
            core.alive[:rows] = episode.valid[part]
            if core.to_move is not None and episode.to_move is not None:
                core.to_move[:rows] = episode.to_move[part]
            frames.append(core.render_frames(range(rows), size))
        return np.concatenate(frames)

    def after_reset(self) -> None:
        """Record a reset. An episode that it cuts short is incomplete and is dropped."""
        self._previous = self._snapshot()

    def after_step(self) -> None:
        """Record a step."""
        io = self._buffers.io
        played = {name: io[name][self._rows] for name in _RESULTS}
        played["action"] = self._buffers.action[self._rows]
        self._steps.append(self._previous | played)
        self._previous = self._snapshot()

    def _snapshot(self) -> dict[str, torch.Tensor]:
        """Copy the present state of the recorded worlds."""
        buffers, rows = self._buffers, self._rows
        io, info = buffers.io, buffers.info
        snapshot = {f"state.{name}": tensor[rows] for name, tensor in buffers.saved_state.items()}
        table = parameters.read(buffers.definition, buffers.params, len(io["step"]), rows)
        snapshot |= {f"params.{name}": tensor for name, tensor in table.items()}
        snapshot["obs"] = io["obs"][rows]
        snapshot |= {name: info[name][rows] for name in ("action_mask", "to_move") if name in info}
        steps, first = io["step"][rows], io["restart"][rows] | (io["step"][rows] == 0)
        if self._previous:  # still the first step where the world has waited, as after an illegal action
            first |= self._previous["first"] & (steps == self._previous["step"])
        return snapshot | {"step": steps, "first": first, "episode": io["episode"][rows]}

    def _episode(self, row: int, env: int, line: list[int]) -> Episode:
        def column(name: str) -> torch.Tensor:
            return torch.stack([self._steps[t][name][row] for t in line]).cpu()

        first: dict[str, Any] = self._steps[line[0]]
        return Episode(
            world=env + self._env_offset,
            number=int(first["episode"][row]),
            state={name.removeprefix("state."): column(name) for name in first if name.startswith("state.")},
            params={
                name.removeprefix("params."): first[name][row].item() for name in first if name.startswith("params.")
            },
            **{name: column(name) for name in ("action", *_RESULTS, *_INPUTS) if name in first},
        )
