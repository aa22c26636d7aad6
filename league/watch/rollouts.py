"""Rollouts for the viewer: scenes, observations, actions and rewards of one episode per world.

They run on the CPU, one at a time, in a separate thread. The latest ones are cached.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from gpu_envs import descriptions
from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError
from gpu_envs.runtime.core import Core
from gpu_envs.utils.lru_cache import LRUCache
from league.game import Seat
from trainers.base.random_streams import derive_seed
from trainers.models.policy import PolicyProtocol
from trainers.models.policy_set import PolicyRunner

MAX_WORLDS = 16
"""Maximum number of worlds in a rollout."""
MAX_STEPS = 1000
"""Maximum number of steps in a rollout."""
BUDGET = 32 * 2**20
"""Maximum size of a rollout's arrays [byte]; larger ones get fewer worlds, then no observations, then fewer steps."""
CACHE_BYTES = 128 * 2**20
"""Size of the cache of encoded rollouts [byte]."""
RETRIES, RETRY_SECONDS = 20, 0.005
"""Number of times that policies are read again, because a file of them was missing, and the time in between [s]."""
MAX_WAITING = 8
"""Maximum number of rollouts that wait to be recorded."""


class RolloutEnvironment(Protocol):
    """Environment in which the policies of a run play."""

    @property
    def seats(self) -> Sequence[Seat]:
        """Seats, each played by one policy."""
        ...

    def core(self, num_envs: int) -> Core:
        """Return worlds on the CPU with autoreset "disabled"."""
        ...

    def policy(self, seat: int, name: str) -> PolicyProtocol | None:
        """Return a policy instance for one seat; None: random actions."""
        ...

    def present(self, name: str) -> str:
        """Return the name of a policy, or of the newest one if the run has removed it meanwhile."""
        ...


class ViewerClosedError(GpuEnvsError):
    """Error for rollouts that are not recorded: the viewer is closed, or newer rollouts were requested."""


@torch.no_grad()
def record_rollout(
    stage: RolloutEnvironment,
    names: Sequence[str],
    seed: int,
    worlds: int,
    budget: int = BUDGET,
    stopped: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Record one episode in every world.

    Args:
        stage: Environment and policies of the run.
        names: Policy of each seat.
        seed: Random seed of environments and actions; the same arguments give the same rollout.
        worlds: Number of episodes; fewer if they exceed the budget.
        budget: Maximum size of the arrays [byte].
        stopped: Called before every step; recording ends if it returns True.

    Returns:
        The response to `api/rollout`, see `league.watch.api`.

    Raises:
        ConfigError: The worlds are host environments, which declare no shapes to draw.
        ViewerClosedError: `stopped` returned True.
    """
    names, policies = _load(stage, names)  # first: a training removes checkpoints
    core = stage.core(worlds)
    if core.definition.draw is None:
        raise ConfigError(f"{core.id}: the viewer draws no host environments; make a picture with gpu-envs render")
    core.reset(seed=seed)
    steps = min(core.definition.max_episode_steps or MAX_STEPS, MAX_STEPS)
    size = _size(snapshot(core, core.alive)) // worlds  # of one frame of a world
    if (fit := max(1, budget // (size * (steps + 1)))) < worlds:
        core = stage.core(fit)
    obs, info = core.reset(seed=seed)
    frame = snapshot(core, core.alive)
    left_out = ("obs",) if size * (steps + 1) > budget else ()
    frame = {name: tensor for name, tensor in frame.items() if name not in left_out}
    size = _size(frame)
    steps = min(steps, max(1, budget // size - 1))

    players: dict[str, PolicyProtocol | None] = {}
    for index, (seat, policy) in enumerate(zip(stage.seats, policies, strict=True)):
        if policy is not None:
            policy.seed(derive_seed(seed, index))
        players |= dict.fromkeys(seat.members, policy)
    cast = PolicyRunner(core, players)
    frames, played = [frame], []
    visible, going = core.alive.clone(), core.alive.any(1)
    while len(played) < steps and bool(going.any()):
        if stopped():
            raise ViewerClosedError("the viewer was closed")
        obs, reward, _, _, info = core.step(cast.act(obs, info))
        played.append({"action": core.action_buffer.to(torch.float32, copy=True), "reward": reward.clone()})
        # the agents of an episode's last step stay visible
        visible = torch.where(
            info["alive"].any(1, keepdim=True),
            info["alive"],
            torch.where(_rows(going, visible), info["valid"], visible),
        )
        new = snapshot(core, visible)
        frames.append({n: torch.where(_rows(going, new[n]), new[n], previous) for n, previous in frames[-1].items()})
        going = info["alive"].any(1)
    seats = [
        {"name": seat.name, "role": seat.role, "policy": name} for seat, name in zip(stage.seats, names, strict=True)
    ]
    return rollout_answer(core, seats, seed, frames, played, left_out) | {"complete": (~going).tolist()}


def _load(stage: RolloutEnvironment, names: Sequence[str]) -> tuple[tuple[str, ...], list[PolicyProtocol | None]]:
    """Load the policy of each seat; the newest ones replace those that the run removes while they are read.

    Returns:
        The names of the loaded policies, and the policies.

    Raises:
        CheckpointError, OSError: A file is damaged or missing, however often it is read.
    """
    for retry in range(RETRIES + 1):
        chosen = tuple(stage.present(name) for name in names)
        try:
            return chosen, [stage.policy(seat, name) for seat, name in enumerate(chosen)]
        except (CheckpointError, OSError):
            if retry == RETRIES:
                raise
            time.sleep(RETRY_SECONDS)
    raise AssertionError(RETRIES)


def _rows(flags: Tensor, like: Tensor) -> Tensor:
    """Return flags (W,) with the number of axes of another tensor."""
    return flags.view(-1, *(1,) * (like.dim() - 1))


def snapshot(core: Core, visible: Tensor) -> dict[str, Tensor]:
    """Return the present frame of all worlds; `visible` (W, A) are the agents to draw."""
    alive = core.alive.clone()
    core.alive.copy_(visible)
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


def rollout_answer(
    core: Core,
    seats: Sequence[Mapping[str, str]],
    seed: int,
    frames: Sequence[Mapping[str, Tensor]],
    played: Sequence[Mapping[str, Tensor]],
    left_out: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the fields of a rollout, see `league.watch.api`, but `complete`.

    Args:
        core: The worlds, W.
        seats: Name, role and policy of each seat.
        seed: Random seed of the rollout.
        frames: T + 1 frames, see `snapshot`.
        played: The T steps between them: "action" (W, A) or (W, A, K) and "reward" (W, A), float32.
        left_out: Names of arrays to leave out.
    """
    scene = core.definition.draw(core, torch.arange(core.num_envs))
    arrays = {name: torch.stack([frame[name] for frame in frames]) for name in frames[0] if name not in left_out}
    for name, buffer in (("action", core.action_buffer), ("reward", core.reward)):
        arrays[name] = torch.stack([step[name] for step in played]) if played else buffer.new_zeros((0, *buffer.shape))
    bounds = arrays.pop("bounds")
    moves = bool((bounds != bounds[0]).any())
    return {
        "env_id": core.id,
        "seed": seed,
        "seats": list(seats),
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
        **{name: pack_array(arrays[name]) if name in arrays else None for name in ARRAYS},
        "obs_widths": [core.observation_spaces[agent].shape[0] for agent in core.possible_agents],
        "obs_names": descriptions.describe_observations(core),
        "action_names": descriptions.describe_actions(core),
        "action_parts": descriptions.describe_action_parts(core),
    }


ARRAYS = ("shapes", "places", "obs", "alive", "action", "reward")
"""Names of a rollout's arrays, each over steps and worlds (T, W, ...)."""


def pack_array(tensor: Tensor) -> dict[str, Any]:
    """Encode an array for JSON: its shape, and base64 of little-endian float32, the last axis fastest."""
    data = np.ascontiguousarray(tensor.cpu().numpy(), "<f4").tobytes()
    return {"shape": list(tensor.shape), "data": base64.b64encode(data).decode()}


class RolloutCache:
    """Cache of answers, which are made one at a time in a thread."""

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        """Start with an empty cache of `max_bytes` bytes."""
        self.max_bytes: int = max_bytes
        self.closed: threading.Event = threading.Event()
        self._pool = ThreadPoolExecutor(1, "rollouts")
        self._lock = threading.Lock()
        self._pending: dict[Hashable, Future[bytes]] = {}  # the last requested last
        self._answers: LRUCache[Hashable, bytes] = LRUCache(max_bytes=max_bytes)

    def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return the result of `make`, which is called once for simultaneous and cached requests of a key."""
        with self._lock:
            if key in self._answers:
                return self._answers[key]
            future = self._pending.pop(key, None) or self._pool.submit(make)
            self._pending[key] = future
            waiting = [answer for answer in self._pending.values() if not (answer.done() or answer.running())]
            for oldest in waiting[:-MAX_WAITING]:
                oldest.cancel()
        try:
            answer = future.result()
        except CancelledError:
            raise ViewerClosedError("not played: newer rollouts were asked for, or the viewer was closed") from None
        finally:
            with self._lock:
                if self._pending.get(key) is future:  # the next request after an error tries again
                    del self._pending[key]
        with self._lock:
            self._answers[key] = answer
        return answer

    def close(self) -> None:
        """Stop recording and close the cache."""
        self.closed.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
