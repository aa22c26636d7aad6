"""Whole episodes of chosen worlds, kept for replay and plots."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from gpu_envs import constants, restoring
from gpu_envs.checks import check_worlds
from gpu_envs.errors import CaptureError

if TYPE_CHECKING:
    from gpu_envs.core import Core

_KEPT = ("reward", "terminated", "truncated", "valid")
AT_ONCE = 64
"""States that are drawn together."""
_SEEN = ("obs", "action_mask", "to_move")


@dataclass(frozen=True)
class Episode:
    """One episode of one world, T steps, on the CPU."""

    world: int
    """Global index of the world."""
    number: int
    """Episodes that this world had played before, since its seed was laid."""
    state: dict[str, torch.Tensor]
    """The rules' State before every step, by field: (T, ...)."""
    params: dict[str, float]
    """Constants of the rules in this world."""
    obs: torch.Tensor
    """(T, A, D), what agents acted on."""
    action: torch.Tensor
    """(T, A) or (T, A, K), as played: the no-op of agents that had left, or whose action was refused."""
    reward: torch.Tensor
    """(T, A)."""
    terminated: torch.Tensor
    """(T, A) bool."""
    truncated: torch.Tensor
    """(T, A) bool."""
    valid: torch.Tensor
    """(T, A) bool, alive before the step."""
    action_mask: torch.Tensor | None = None
    """(T, A, n) bool, the legal choices; None where every choice is always legal."""
    to_move: torch.Tensor | None = None
    """(T, A) bool, who decided; None where agents do not take turns."""

    def __len__(self) -> int:
        return len(self.reward)


def check_episode(core: "Core", episode: Episode) -> None:
    """Refuse an episode, such as one read from a file, that does not fit an environment.

    Raises:
        CheckpointError: Naming the first entry whose presence, shape, dtype or value does not fit.
    """
    restoring.check_episode(core.id, core._layout, episode)


class Recorder:
    """Made by :meth:`gpu_envs.core.Core.record`. Use it in a ``with`` block, or close it.

    Nothing waits for the device while worlds are stepped; memory grows with every step until :meth:`take`, by some
    hundreds of bytes an agent.
    """

    def __init__(self, core: "Core", envs: int | Sequence[int]) -> None:
        self.core = core
        self.envs = check_worlds(core.id, envs, core.num_envs)
        self._rows = torch.tensor(self.envs, device=core.device)
        self._steps: list[dict[str, torch.Tensor]] = []
        self._before: dict[str, torch.Tensor] = {}
        self._before = self._look()
        core._recorders.append(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop recording; what was recorded stays."""
        if self in self.core._recorders:
            self.core._recorders.remove(self)

    def take(self) -> list[Episode]:
        """Episodes that have begun and ended since recording began, in the order of their ends; forgets them."""
        self._steps = [{name: tensor.cpu() for name, tensor in step.items()} for step in self._steps]
        done: list[tuple[int, Episode]] = []
        going: list[set[int]] = [set() for _ in self._steps]  # rows of each step whose episode goes on
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
                    line = []
            for t in line:
                going[t].add(row)
        first = min((t for t, rows in enumerate(going) if rows), default=len(self._steps))
        self._steps = self._steps[first:]
        return [episode for _, episode in sorted(done, key=lambda pair: pair[0])]

    def frames(self, episode: Episode, size: int = 256) -> np.ndarray:
        """Draw every state of an episode: uint8 (T, size, size, 3).

        Raises:
            CheckpointError: The episode does not fit the environment.
        """
        from gpu_envs.core import Core

        core = self.core
        check_episode(core, episode)
        count = min(len(episode), AT_ONCE)
        stage = Core(core.definition, env_id=core.id, config=core.config, num_envs=count, device=torch.device("cpu"))
        stage.reset()
        fixed = [name for name in core.definition.fixed_params if name in episode.params]
        stage.set_params(**{name: value for name, value in episode.params.items() if name not in fixed})
        pictures = []
        for first in range(0, len(episode), count):
            part = slice(first, min(first + count, len(episode)))
            rows = part.stop - part.start
            for name, values in episode.state.items():
                stage.world_state[name][:rows] = values[part]
            stage.alive[:rows] = episode.valid[part]
            if stage.to_move is not None and episode.to_move is not None:
                stage.to_move[:rows] = episode.to_move[part]
            pictures.append(stage.frame(range(rows), size))
        return np.concatenate(pictures)

    def _look(self) -> dict[str, torch.Tensor]:
        """The recorded worlds as they stand."""
        core, rows = self.core, self._rows
        seen = {f"state.{name}": tensor[rows] for name, tensor in core._layout.kept.items()}
        table = constants.read(core.definition, core._layout.params, core.num_envs, rows)
        seen |= {f"params.{name}": tensor for name, tensor in table.items()}
        for name in _SEEN:
            if (tensor := getattr(core, name)) is not None:
                seen[name] = tensor[rows]
        steps, first = core.steps[rows], core._io["restart"][rows] | (core.steps[rows] == 0)
        if self._before:  # still the first step where the world has waited, as after a refused action
            first |= self._before["first"] & (steps == self._before["step"])
        return seen | {"step": steps, "first": first, "episode": core.episodes[rows]}

    def after_reset(self) -> None:
        """The core has been reset, in part or as a whole: an episode cut short by it will not be whole."""
        self._before = self._look()

    def after_step(self) -> None:
        """The core has stepped; CaptureError inside a CUDA graph."""
        core = self.core
        if core.device.type == "cuda" and core._is_capturing():
            raise CaptureError(f"{core.id}: recording allocates; close the recorder before a CUDA graph is captured")
        played = {name: getattr(core, name)[self._rows] for name in _KEPT}
        played["action"] = core.action_buffer[self._rows]
        self._steps.append(self._before | played)
        self._before = self._look()

    def _episode(self, row: int, env: int, line: list[int]) -> Episode:
        def column(name: str) -> torch.Tensor:
            return torch.stack([self._steps[t][name][row] for t in line]).cpu()

        first: dict[str, Any] = self._steps[line[0]]
        return Episode(
            world=env + self.core.env_offset,
            number=int(first["episode"][row]),
            state={name.removeprefix("state."): column(name) for name in first if name.startswith("state.")},
            params={
                name.removeprefix("params."): first[name][row].item() for name in first if name.startswith("params.")
            },
            **{name: column(name) for name in ("action", *_KEPT, *_SEEN) if name in first},
        )
