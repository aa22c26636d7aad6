"""Rollouts to look at: one episode per world, as scenes and as what every agent saw, did and earned.

They are played on the CPU, one at a time, in a thread of their own; the latest answers are kept.
"""

from __future__ import annotations

import base64
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from gpu_envs import meanings
from gpu_envs.core import Core
from gpu_envs.errors import GpuEnvsError
from league.game import Seat
from trainers.evaluate import Cast
from trainers.policy import Plays
from trainers.settings import derived_seed

MAX_WORLDS = 16
"""Of a rollout."""
MAX_STEPS = 1000
"""Steps that a rollout ends at in any case."""
BUDGET = 32 * 2**20
"""Bytes of arrays in a rollout. What would be larger has fewer worlds, then no observations, then fewer steps."""
KEPT = 128 * 2**20
"""Bytes of answers that are kept."""
WAITING = 8
"""Rollouts that wait for their turn, at most."""


class Stage(Protocol):
    """Where the policies of a run play."""

    @property
    def seats(self) -> Sequence[Seat]:
        """Sides that a policy each plays."""
        ...

    def core(self, num_envs: int) -> Core:
        """Worlds on the CPU whose episodes end for good (autoreset "disabled")."""
        ...

    def policy(self, place: int, name: str) -> Plays | None:
        """Who plays a seat, an object of that seat alone; None plays at random."""
        ...


class Stopped(GpuEnvsError):
    """The viewer was closed meanwhile."""


@torch.no_grad()
def record(
    stage: Stage,
    names: Sequence[str],
    seed: int,
    worlds: int,
    budget: int = BUDGET,
    stopped: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Plays one episode in every world.

    Args:
        stage: Where.
        names: Policy of each seat.
        seed: Of worlds and samples; the same call gives the same rollout.
        worlds: Episodes, fewer where they would be larger than the budget.
        budget: Bytes of arrays.
        stopped: Asked before every step; GpuEnvsError if it says so.

    Returns:
        The answer to `api/rollout`, see `league.watch.api`.
    """
    core = stage.core(worlds)
    core.reset(seed=seed)
    steps = min(core.definition.max_steps or MAX_STEPS, MAX_STEPS)
    size = _size(_look(core, core.alive)) // worlds  # of a world's frame
    if (fit := max(1, budget // (size * (steps + 1)))) < worlds:
        core = stage.core(fit)
    obs, info = core.reset(seed=seed)
    frame = _look(core, core.alive)
    left_out = ("obs",) if size * (steps + 1) > budget else ()
    frame = {name: tensor for name, tensor in frame.items() if name not in left_out}
    size = _size(frame)
    steps = min(steps, max(1, budget // size - 1))

    players: dict[str, Plays | None] = {}
    for place, (seat, name) in enumerate(zip(stage.seats, names, strict=True)):
        policy = stage.policy(place, name)
        if policy is not None:
            policy.seed(derived_seed(seed, place))
        players |= dict.fromkeys(seat.members, policy)
    cast = Cast(core, players)
    frames, played = [frame], []
    seen, going = core.alive.clone(), core.alive.any(1)
    while len(played) < steps and bool(going.any()):
        if stopped():
            raise Stopped("the viewer was closed")
        obs, reward, _, _, info = core.step(cast.act(obs, info))
        played.append({"action": core.action_buffer.to(torch.float32, copy=True), "reward": reward.clone()})
        # who is there when an episode ends is still drawn, also if that was the end of all
        seen = torch.where(
            info["alive"].any(1, keepdim=True), info["alive"], torch.where(_rows(going, seen), info["valid"], seen)
        )
        new = _look(core, seen)
        frames.append({n: torch.where(_rows(going, new[n]), new[n], before) for n, before in frames[-1].items()})
        going = info["alive"].any(1)
    return _answer(core, stage, names, seed, frames, played, left_out) | {"complete": (~going).tolist()}


def _rows(flags: Tensor, like: Tensor) -> Tensor:
    """(W,) with the axes of another."""
    return flags.view(-1, *(1,) * (like.dim() - 1))


def _look(core: Core, seen: Tensor) -> dict[str, Tensor]:
    """The worlds as they stand, with the agents that are to be drawn, (W, A)."""
    alive = core.alive.clone()
    core.alive.copy_(seen)
    scene = core.definition.draw(core, torch.arange(core.num_envs))
    core.alive.copy_(alive)
    frame = {
        "shapes": scene.shapes,
        "bounds": torch.as_tensor(scene.bounds, dtype=torch.float32).expand(core.num_envs, 4),
        "obs": core.obs.clone(),
        "alive": alive.float(),
    }
    return frame if scene.places is None else {**frame, "places": scene.places}


def _size(frame: Mapping[str, Tensor]) -> int:
    return sum(tensor.nbytes for tensor in frame.values())


def _answer(
    core: Core,
    stage: Stage,
    names: Sequence[str],
    seed: int,
    frames: Sequence[Mapping[str, Tensor]],
    played: Sequence[Mapping[str, Tensor]],
    left_out: Sequence[str],
) -> dict[str, Any]:
    scene = core.definition.draw(core, torch.arange(core.num_envs))
    arrays = {name: torch.stack([frame[name] for frame in frames]) for name in frames[0] if name not in left_out}
    arrays |= {name: torch.stack([step[name] for step in played]) for name in ("action", "reward")}
    bounds = arrays.pop("bounds")
    moves = bool((bounds != bounds[0]).any())
    return {
        "env_id": core.id,
        "seed": seed,
        "seats": [
            {"name": seat.name, "role": seat.role, "policy": name}
            for seat, name in zip(stage.seats, names, strict=True)
        ],
        "fps": core.render_fps,
        "agents": list(core.possible_agents),
        "groups": {group: list(rows) for group, rows in core.groups.items()},
        "worlds": core.num_envs,
        "steps": len(played),
        "bounds": bounds.tolist() if moves else bounds[0].tolist(),
        "background": list(scene.background),
        "surround": list(scene.surround),
        "border": None if scene.border is None else list(scene.border),
        "margin": scene.margin,
        **{name: packed(arrays[name]) if name in arrays else None for name in ARRAYS},
        "obs_widths": [core.observation_spaces[agent].shape[0] for agent in core.possible_agents],
        "obs_names": meanings.observation_names(core),
        "action_names": meanings.action_names(core),
    }


ARRAYS = ("shapes", "places", "obs", "alive", "action", "reward")
"""Of an answer, each over steps and worlds (T, W, ...)."""


def packed(tensor: Tensor) -> dict[str, Any]:
    """An array for JSON: its shape, and base64 of little-endian float32, the last axis fastest."""
    data = np.ascontiguousarray(tensor.cpu().numpy(), "<f4").tobytes()
    return {"shape": list(tensor.shape), "data": base64.b64encode(data).decode()}


class Rollouts:
    """Makes answers one at a time in a thread of its own, and keeps the latest."""

    def __init__(self, kept: int = KEPT) -> None:
        """`kept`: bytes of answers to keep."""
        self.kept, self.closed = kept, threading.Event()
        self._pool = ThreadPoolExecutor(1, "rollouts")
        self._lock = threading.Lock()
        self._answers: OrderedDict[Hashable, Future[bytes]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """What `make` gave, now or before; who asks for the same meanwhile waits for the same."""
        with self._lock:
            future = self._answers.get(key) or self._pool.submit(make)
            self._answers[key] = future
            self._answers.move_to_end(key)
            waiting = [each for each in self._answers.values() if not (each.done() or each.running())]
            for oldest in waiting[:-WAITING]:  # who asked has most likely gone on
                oldest.cancel()
        try:
            answer = future.result()
        except CancelledError:
            with self._lock:
                self._answers.pop(key, None)
            raise Stopped("not played: newer rollouts were asked for, or the viewer was closed") from None
        except BaseException:
            with self._lock:
                self._answers.pop(key, None)  # the next to ask tries again
            raise
        with self._lock:
            sizes = {
                each: len(done.result()) for each, done in self._answers.items() if done.done() and not done.exception()
            }
            for oldest in list(sizes)[:-1]:
                if sum(sizes.values()) > self.kept:
                    del self._answers[oldest], sizes[oldest]
        return answer

    def close(self) -> None:
        """Ends what is being played."""
        self.closed.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
