"""Agent rows as a Stable-Baselines3 ``VecEnv`` of NumPy arrays, with one shared policy for the rows."""

import copy
import inspect
import time
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, NoReturn

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode

from gpu_envs.definition.id_modules import NAMESPACE
from gpu_envs.errors import ConfigError, ResetNeededError, format_names, missing_extra, packages
from gpu_envs.runtime.core import Core
from gpu_envs.utils.summaries import Summary
from gpu_envs.views.notebook import NotebookView
from gpu_envs.views.reset_options import seeds_per_env
from gpu_envs.views.rows import RowsEnv
from gpu_envs.views.specs import RebuildOnCopy

try:
    from stable_baselines3.common.monitor import Monitor  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.vec_env import VecEnv  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError as error:
    raise missing_extra(error, "gpu_envs.views.sb3", ("stable_baselines3",), packages("sb3")) from None


FIXED = ("autoreset", "autoreset_mode", "reuse_buffers", "to_numpy")  # arguments that this view sets itself
MAX_RENDERED = 16  # worlds that are drawn, at most


class SB3VecEnv(NotebookView, VecEnv, RebuildOnCopy):
    """Agent rows of many worlds for Stable-Baselines3.

    ::

        env = SB3VecEnv("SimpleTag-v0", num_envs=64, group="adversary")
        PPO("MlpPolicy", env).learn(100_000)

    A row is one agent of one world, as in :class:`gpu_envs.views.rows.RowsEnv`: its episode ends with its world. After
    its agent has left, a row has observation 0, reward 0 and ``infos[row]["alive"]`` False. The argument ``num_envs``
    counts worlds, the attribute ``num_envs`` counts rows.

    Every info has "alive", "valid" and "TimeLimit.truncated". Environments with illegal actions add "action_mask",
    turn-based environments add "to_move". When a row's episode ends, its info also has "terminal_observation", the last
    observation of the agent, and "episode", as from SB3's ``Monitor``. The latter holds the return "r" and length "l"
    of the agent, and the seconds "t" since the creation of this object. ``env_method("action_masks")`` returns a mask
    per row, for sb3-contrib's MaskablePPO. Rows whose episode goes on share one dict if they have the entries that most
    rows have; it refuses changes: a dict for each of thousands of rows would take longer than the step. A wrapper that
    writes into infos writes into a copy, ``dict(info)``.

    The rows are one batch and not separate environments. ``get_attr`` and ``env_method`` use the batch, then its core,
    and return the same value for every row. ``set_attr`` changes all rows or raises.

    Args:
        env_id: "SimpleTag-v0", ...
        num_envs: Number of worlds.
        group: Group whose agents get rows; None means all agents, which must have equal spaces.
        agent: Agent that gets rows, one per world, in place of a group.
        opponents: Policies of the other agents: "random", an SB3 model or policy, a policy of ``trainers``, a
            callable ``policy(obs) -> action`` on tensors (E, n, D) and (E, n[, K]), or a dict of these by group or
            agent. An SB3 model is any object with ``predict``; it samples actions as in training.
            :meth:`set_opponents` replaces the policies.
        device: Device of the worlds; None is cuda if available, else the CPU.
        render_mode: "rgb_array", "human" or None.
        **config: Settings, ``seed=`` and ``max_episode_steps=`` among them, as for :func:`gpu_envs.make`.

    Raises:
        ConfigError: A setting does not exist, has an invalid value, or is set by this view.
    """

    def __init__(
        self,
        env_id: str,
        num_envs: int = 1,
        *,
        group: str | None = None,
        agent: str | None = None,
        opponents: Any = "random",
        device: Any = None,
        render_mode: str | None = None,
        **config: Any,
    ) -> None:
        arguments = {"opponents": opponents, "device": device, "render_mode": render_mode}
        RebuildOnCopy.__init__(self, env_id, num_envs, group=group, agent=agent, **arguments, **config)
        for name in FIXED:
            if name in config:
                raise ConfigError(f"{env_id}: {name} is fixed in the view for SB3; use gymnasium.make_vec to set it")
        rows: RowsEnv
        self.rows: RowsEnv
        rows = self.rows = RowsEnv(
            num_envs,
            env_id=env_id,
            group=group,
            agent=agent,
            autoreset_mode=AutoresetMode.SAME_STEP,
            to_numpy=True,
            **{**arguments, "opponents": _callables(opponents)},
            **config,
        )
        self.core: Core = rows.core
        self.spec: Any
        self.spec = rows.spec = gymnasium.spec(NAMESPACE + rows.core.id)
        self._actions: np.ndarray | None = None
        self._next_seed: Any = None
        self._start_time = time.time()
        observation_space, action_space = copy.deepcopy((rows.single_observation_space, rows.single_action_space))
        super().__init__(rows.num_envs, observation_space, action_space)
        self.metadata: dict[str, Any] = rows.metadata

    def _summary(self) -> Summary:
        return self.rows._summary()

    def set_opponents(self, opponents: Any) -> None:
        """Replace the policies of the other agents; ``opponents`` is as for the class."""
        self.rows.set_opponents(_callables(opponents))
        self._ezpickle_kwargs["opponents"] = opponents  # for copies

    def reset(self) -> Any:
        """Start new episodes in all worlds and return the observations (rows, D) float32.

        Images have the shape and dtype of their space, and a Dict is a dict of its blocks. The seed and options come
        from ``seed`` and ``set_options``.

        Raises:
            ConfigError: The options differ between rows.
        """
        options = self._options[0]
        if any(other is not options and not _alike(other, options) for other in self._options):
            raise ConfigError(f"{self.core.id}: options of a reset hold for all rows; pass one dict")
        obs, info = self.rows.reset(seed=self._next_seed, options=options or None)
        self._reset_seeds()
        self._next_seed = None
        self._reset_options()
        self._actions = None
        self.reset_infos: list[dict[str, Any]] = self._infos(info)
        return obs

    def seed(self, seed: int | Sequence[int] | None = None) -> Sequence[int | None]:  # type: ignore[override]
        """Seed the next reset.

        Args:
            seed: An int for all worlds, one int per world (a list, an array or a tensor), see
                :meth:`gpu_envs.runtime.core.Core.reset`, or None for a random one.

        Returns:
            A number per row, as SB3 expects it: seed, seed + 1, ...; the seed of its world if every world has one.

        Raises:
            ConfigError: A seed is not an int, or negative; or their number differs from the number of worlds.
        """
        seeds = seeds_per_env(self.core, seed)
        if isinstance(seeds, int | None):
            self._next_seed = super().seed(seeds)[0]
        else:
            if len(seeds) != self.core.num_envs:
                expected = f"an int or one int per world, {self.core.num_envs} of them"
                raise ConfigError(f"{self.core.id}: seed: expected {expected}, got {len(seeds)} seeds")
            self._next_seed = seeds
            self._seeds = [key for key in seeds for _ in self.rows.agents]
        return self._seeds

    def step_async(self, actions: np.ndarray) -> None:
        """Store the rows' actions (num_envs,) or (num_envs, K) for :meth:`step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Play one step.

        Returns:
            Observations (num_envs, D) float32, rewards (num_envs,) float32, dones (num_envs,) bool, infos by row.
            The observation of a row that is done is the first one of its next episode.

        Raises:
            ActionError: See :meth:`gpu_envs.runtime.core.Core.step`.
            ResetNeededError: The environment was not reset, or ``step_async`` was not called.
        """
        if self._actions is None:
            raise ResetNeededError(f"{self.core.id}: step_wait without actions; call step_async(actions) first")
        actions, self._actions = self._actions, None
        obs, rewards, terminated, truncated, info = self.rows.step(actions)
        dones = terminated | truncated
        rows = np.flatnonzero(dones)
        infos = self._infos(info, truncated & ~terminated, rows)
        if rows.size:
            figures, elapsed = info["final_info"], round(time.time() - self._start_time, 6)
            obs_of_ends = info["final_obs"]
            if isinstance(obs_of_ends, dict):
                blocks = {name: block[rows] for name, block in obs_of_ends.items()}  # copies
                lasts = [{name: block[i] for name, block in blocks.items()} for i in range(len(rows))]
            else:
                lasts = obs_of_ends[rows]  # a copy
            returns, lengths = (figures[name][rows].tolist() for name in ("episode_return", "episode_length"))
            for row, last, total, length in zip(rows.tolist(), lasts, returns, lengths, strict=True):
                infos[row]["terminal_observation"] = last
                infos[row]["episode"] = {"r": total, "l": length, "t": elapsed}
        return obs, rewards.astype(np.float32), dones, infos

    def action_masks(self) -> np.ndarray:
        """Return the legal actions of every row for the next step, (num_envs, n) bool, for MaskablePPO."""
        if self.core.action_mask is None:
            raise AttributeError(f"{self.core.id} has no action masks: all actions are legal")
        return self.rows.action_mask()

    def close(self) -> None:
        """Release the environment."""
        self.rows.close()

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Return a frame (H, W, 3) uint8 of each of the first 16 worlds; the rows of a world share it."""
        return list(self.core.render_frames(tuple(range(min(MAX_RENDERED, self.core.num_envs)))))

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of the batch for each of these rows; "action_masks" only if actions can be illegal."""
        if attr_name == "action_masks":  # sb3-contrib checks for masks in this way
            self.action_masks()
            return [self.action_masks for _ in self._chosen(indices)]
        value = self._find(attr_name)
        return [value for _ in self._chosen(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of the batch.

        Raises:
            ConfigError: The indices do not cover all rows, or the attribute is a setting of the core or an environment
                parameter.
        """
        params = self.core.get_params()
        if attr_name in params:
            raise ConfigError(
                f"{self.core.id}: {attr_name} is an environment parameter; "
                f"use env_method('set_params', {attr_name}=...)"
            )
        if hasattr(self.core, attr_name) or hasattr(self.core.config, attr_name):
            raise ConfigError(
                f"{self.core.id}: {attr_name} is fixed when the environment is created; "
                f"env_method('set_params', ...) changes environment parameters: {format_names(params)}"
            )
        if set(self._chosen(indices)) != set(range(self.num_envs)):
            raise ConfigError(f"{self.core.id}: set_attr({attr_name!r}) holds for all rows; omit indices")
        setattr(self.rows, attr_name, value)

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Call a method of the batch once and return its result per row; "action_masks" returns a mask per row."""
        chosen = self._chosen(indices)
        if method_name == "action_masks":
            return list(self.action_masks()[chosen])
        result = self._find(method_name)(*method_args, **method_kwargs)
        return [result for _ in chosen]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """Return True for SB3's ``Monitor``, whose "episode" the infos have, and False for any other wrapper."""
        return [wrapper_class is Monitor for _ in self._chosen(indices)]

    def _find(self, name: str) -> Any:
        for owner in (self.rows, self.core):
            if hasattr(owner, name):
                return getattr(owner, name)
        raise AttributeError(f"neither the rows nor the core of {self.core.id} have an attribute {name!r}")

    def _chosen(self, indices: int | Iterable[int] | None) -> list[int]:
        return list(self._get_indices(indices))

    def _infos(
        self, info: dict[str, Any], truncated: np.ndarray | None = None, ended: np.ndarray | tuple = ()
    ) -> list[dict[str, Any]]:
        """Return the info columns of the batch as a dict per row, as SB3 requires at every step.

        Flags are equal in nearly all rows: these share a dict. The rows ``ended`` get their own.
        """
        columns = {name: info[name] for name in info if f"_{name}" in info and not name.startswith("final_")}
        if truncated is not None:
            columns["TimeLimit.truncated"] = truncated
        flags = {name: column for name, column in columns.items() if column.dtype == bool and column.ndim == 1}
        counts = {name: int(np.count_nonzero(flag)) for name, flag in flags.items()}
        usual = {name: 2 * count > self.num_envs for name, count in counts.items()}
        mixed = {name: flags[name] for name, count in counts.items() if 0 < count < self.num_envs}
        infos: list[dict[str, Any]]
        if len(flags) < len(columns):
            infos = list(map(dict.copy, repeat(usual, self.num_envs)))
        else:
            infos = [_SharedInfo(usual)] * self.num_envs
            unusual = np.zeros(self.num_envs, bool)
            unusual[ended] = True
            for name, flag in mixed.items():
                unusual |= flag != usual[name]
            for row in np.flatnonzero(unusual).tolist():
                infos[row] = usual.copy()
        for name, flag in mixed.items():
            for row in np.flatnonzero(flag != usual[name]).tolist():
                infos[row][name] = not usual[name]
        for name in columns.keys() - flags.keys():
            column = columns[name]
            for row_info, value in zip(infos, column.tolist() if column.ndim == 1 else column, strict=True):
                row_info[name] = value
        return infos


class _SharedInfo(dict):
    """Info of several rows, which refuses changes; its copies are plain dicts."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            "this info belongs to several rows: change a copy, dict(info); for a wrapper that writes to infos, put "
            "a VecEnvWrapper below it whose step_wait returns infos = [dict(info) for info in infos]"
        )

    __setitem__ = __delitem__ = __ior__ = pop = popitem = clear = _refuse
    update: Any = _refuse
    setdefault: Any = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def _alike(left: Any, right: Any) -> bool:
    """Return whether the options of two rows are equal; False if the comparison returns arrays."""
    try:
        return bool(left == right)
    except (ValueError, RuntimeError):  # of arrays and tensors
        return False


class _Model:
    """Policy of a group from an SB3 model, which samples its actions.

    Observations are normalized if the model was trained with ``VecNormalize``.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.takes_masks = "action_masks" in inspect.signature(model.predict).parameters

    def __call__(self, obs: Any, *masks: torch.Tensor) -> torch.Tensor:
        """Return actions (E, n[, K]) for observations (E, n, D), or a dict of blocks (E, n, ...)."""
        extra = {"action_masks": _arrays(masks[0])} if masks and self.takes_masks else {}
        observation = {name: _arrays(block) for name, block in obs.items()} if isinstance(obs, dict) else _arrays(obs)
        normalized = self.model.get_vec_normalize_env() if hasattr(self.model, "get_vec_normalize_env") else None
        if normalized is not None:
            observation = normalized.normalize_obs(observation)
        actions, _ = self.model.predict(observation, **extra)
        like = next(iter(obs.values())) if isinstance(obs, dict) else obs
        return torch.as_tensor(actions, device=like.device).view(*like.shape[:2], *actions.shape[1:])


def _arrays(tensor: torch.Tensor) -> np.ndarray:
    """Return values (E, n, ...) as an array of rows (E * n, ...)."""
    return tensor.flatten(0, 1).cpu().numpy()


def _callables(opponents: Any) -> Any:
    """Return opponents with SB3 models replaced by callables."""
    if isinstance(opponents, dict):
        return {name: _callables(policy) for name, policy in opponents.items()}
    return _Model(opponents) if hasattr(opponents, "predict") else opponents
