"""Agent rows as a Stable-Baselines3 ``VecEnv``: NumPy at the boundary, one shared policy for the rows."""

import copy
import inspect
import time
from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode

from gpu_envs.errors import ConfigError, ResetNeededError, listed, missing
from gpu_envs.id_modules import NAMESPACE
from gpu_envs.views.anew import Anew
from gpu_envs.views.rows import RowsEnv

try:
    from stable_baselines3.common.vec_env import VecEnv  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError as error:
    raise missing(error, "gpu_envs.views.sb3", ("stable_baselines3",), "'gpu-envs[sb3]'") from None

FIXED = ("autoreset", "autoreset_mode", "reuse_buffers", "to_numpy")  # arguments that this view chooses
PICTURES = 16  # worlds that are drawn, at most


class SB3VecEnv(VecEnv, Anew):
    """Rows of many worlds for Stable-Baselines3.

    ::

        env = SB3VecEnv("SimpleTag-v0", num_envs=64, group="adversary")
        PPO("MlpPolicy", env).learn(100_000)

    A row is one agent of one world, as in :class:`gpu_envs.views.rows.RowsEnv`: its episode ends with its world, and
    after its agent has left it goes on with observation 0, reward 0 and ``infos[row]["alive"]`` False. The argument
    ``num_envs`` counts worlds, the attribute ``num_envs`` counts rows.

    Every info has "alive", "valid" and "TimeLimit.truncated"; where actions can be illegal "action_mask", and where
    agents take turns "to_move". When a row's episode ends it also has "terminal_observation", the agent's own true last
    observation, and "episode": the agent's own return "r" and length "l", and the seconds "t" since this object was
    made, as from SB3's ``Monitor``. ``env_method("action_masks")`` gives a mask per row, for sb3-contrib's MaskablePPO.

    The rows are one batch and not separate environments: ``get_attr`` and ``env_method`` look at the batch (then at its
    core) and answer the same for every row, ``set_attr`` takes all rows or none.

    Args:
        env_id: "SimpleTag-v0", ...
        num_envs: Number of worlds.
        group: Whose rows; None takes all agents, if their spaces are equal.
        others: What agents of other groups do: "random", an SB3 model or policy (anything with ``predict``; it samples
            as it does while training), a callable ``policy(obs) -> action`` on tensors (E, n, D) and (E, n[, K]), or a
            dict of these by group. :meth:`set_others` changes it later.
        device: Where the worlds live; None takes cuda if there is one.
        render_mode: "rgb_array", "human" or None.
        **config: Settings, ``seed=`` and ``max_episode_steps=`` among them, as for :func:`gpu_envs.make`.

    Raises:
        ConfigError: A setting that does not exist, has a bad value or is fixed here.
    """

    def __init__(
        self,
        env_id: str,
        num_envs: int = 1,
        *,
        group: str | None = None,
        others: Any = "random",
        device: Any = None,
        render_mode: str | None = None,
        **config: Any,
    ) -> None:
        arguments = {"others": others, "device": device, "render_mode": render_mode}
        Anew.__init__(self, env_id, num_envs, group=group, **arguments, **config)
        for name in FIXED:
            if name in config:
                raise ConfigError(f"{env_id}: {name} is fixed in the view for SB3; gymnasium.make_vec takes it")
        rows = self.rows = RowsEnv(
            num_envs,
            env_id=env_id,
            group=group,
            autoreset_mode=AutoresetMode.SAME_STEP,
            to_numpy=True,
            **{**arguments, "others": _callables(others)},
            **config,
        )
        self.core = rows.core
        self.spec = rows.spec = gymnasium.spec(NAMESPACE + rows.core.id)
        self._actions: np.ndarray | None = None
        self._made = time.time()
        observation_space, action_space = copy.deepcopy((rows.single_observation_space, rows.single_action_space))
        super().__init__(rows.num_envs, observation_space, action_space)
        self.metadata = rows.metadata

    def set_others(self, others: Any) -> None:
        """Let agents of other groups act in another way from now on; see ``others``."""
        self.rows.set_others(_callables(others))
        self._ezpickle_kwargs["others"] = others  # for copies

    def reset(self) -> np.ndarray:
        """Start new episodes in all worlds, with what ``seed`` and ``set_options`` left for it: (rows, D) float32.

        Worlds draw from streams of their own under one key: the first of the seeds.

        Raises:
            ConfigError: Options that differ between rows.
        """
        options = self._options[0]
        if any(other is not options and not _alike(other, options) for other in self._options):
            raise ConfigError(f"{self.core.id}: options of a reset hold for all rows; give one dict")
        seed = self._seeds[0]
        obs, told = self.rows.reset(seed=None if seed is None else int(seed), options=options or None)
        self._reset_seeds()
        self._reset_options()
        self._actions = None
        self.reset_infos = self._infos(told)
        return obs

    def step_async(self, actions: np.ndarray) -> None:
        """Take the rows' actions (num_envs,) or (num_envs, K); they are played in :meth:`step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Play one step.

        Returns:
            Observations (num_envs, D) float32, where an episode ended already those of the next one; rewards
            (num_envs,) float32, dones (num_envs,) bool, and an info for every row.

        Raises:
            ActionError: See :meth:`gpu_envs.core.Core.step`.
            ResetNeededError: Before the first reset, or without ``step_async``.
        """
        if self._actions is None:
            raise ResetNeededError(f"{self.core.id}: step_wait without actions; call step_async(actions) first")
        actions, self._actions = self._actions, None
        obs, rewards, terminated, truncated, told = self.rows.step(actions)
        dones = terminated | truncated
        infos = self._infos(told, truncated)
        if dones.any():
            last, figures = told["final_obs"], told["final_info"]
            elapsed = round(time.time() - self._made, 6)
            for row in np.flatnonzero(dones).tolist():
                infos[row]["terminal_observation"] = last[row].copy()
                infos[row]["episode"] = {
                    "r": float(figures["episode_return"][row]),
                    "l": int(figures["episode_length"][row]),
                    "t": elapsed,
                }
        return obs, rewards.astype(np.float32), dones, infos

    def action_masks(self) -> np.ndarray:
        """Legal choices of every row for the next step, bool (num_envs, n); what sb3-contrib's MaskablePPO asks for."""
        if self.core.action_mask is None:
            raise AttributeError(f"{self.core.id} has no action masks: all actions are legal")
        return self.rows.action_mask()

    def close(self) -> None:
        """Release the environment."""
        self.rows.close()

    def get_images(self) -> Sequence[np.ndarray | None]:
        """A picture of each of the first 16 worlds, uint8 (H, W, 3); the rows of a world share it."""
        return list(self.core.frame(tuple(range(min(PICTURES, self.core.num_envs)))))

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of the batch, once for every row asked for; "action_masks" only where there are some."""
        if attr_name == "action_masks":  # how sb3-contrib finds out whether there are masks
            self.action_masks()
            return [self.action_masks for _ in self._chosen(indices)]
        value = self._find(attr_name)
        return [value for _ in self._chosen(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of the batch.

        Raises:
            ConfigError: For some rows only; what the core was made with, or a constant of the rules.
        """
        constants = self.core.get_params()
        if attr_name in constants:
            raise ConfigError(
                f"{self.core.id}: {attr_name} is a constant of the rules; "
                f"env_method('set_params', {attr_name}=...) changes it"
            )
        if hasattr(self.core, attr_name) or hasattr(self.core.config, attr_name):
            raise ConfigError(
                f"{self.core.id}: {attr_name} is fixed when the environment is made; "
                f"constants of the rules can be changed by env_method('set_params', ...): {listed(constants)}"
            )
        if set(self._chosen(indices)) != set(range(self.num_envs)):
            raise ConfigError(f"{self.core.id}: set_attr({attr_name!r}) holds for all rows; leave indices out")
        setattr(self.rows, attr_name, value)

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Call a method of the batch, once, and give its result for every row asked for; "action_masks" row by row."""
        chosen = self._chosen(indices)
        if method_name == "action_masks":
            return list(self.action_masks()[chosen])
        result = self._find(method_name)(*method_args, **method_kwargs)
        return [result for _ in chosen]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """Rows have no wrappers of their own."""
        return [False for _ in self._chosen(indices)]

    def _find(self, name: str) -> Any:
        for place in (self.rows, self.core):
            if hasattr(place, name):
                return getattr(place, name)
        raise AttributeError(f"neither the rows nor the core of {self.core.id} have an attribute {name!r}")

    def _chosen(self, indices: int | Iterable[int] | None) -> list[int]:
        return list(self._get_indices(indices))

    def _infos(self, told: dict[str, Any], truncated: np.ndarray | None = None) -> list[dict[str, Any]]:
        """Columns of the batch as a dict per row, which SB3 asks for at every step.

        Flags are alike in nearly all rows: they are copied from one dict, and what differs is written over it.
        """
        columns = {name: told[name] for name in told if f"_{name}" in told and not name.startswith("final_")}
        if truncated is not None:
            columns["TimeLimit.truncated"] = truncated
        flags = {name: column for name, column in columns.items() if column.dtype == bool and column.ndim == 1}
        usual = {name: bool(2 * np.count_nonzero(flag) > len(flag)) for name, flag in flags.items()}
        infos: list[dict[str, Any]] = [usual.copy() for _ in range(self.num_envs)]
        for name, column in columns.items():
            if name in usual:
                for row in np.flatnonzero(column != usual[name]).tolist():
                    infos[row][name] = not usual[name]
            else:
                for info, value in zip(infos, column.tolist() if column.ndim == 1 else column, strict=True):
                    info[name] = value
        return infos


def _alike(left: Any, right: Any) -> bool:
    """Whether two rows' options are equal; options with arrays are only if they are one object."""
    try:
        return bool(left == right)
    except (ValueError, RuntimeError):  # arrays and tensors have no single answer
        return False


class _Model:
    """An SB3 model among the others: rows of its group in, its sampled actions out.

    A model that learned behind a ``VecNormalize`` sees what it saw there.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.takes_masks = "action_masks" in inspect.signature(model.predict).parameters

    def __call__(self, obs: torch.Tensor, *masks: torch.Tensor) -> torch.Tensor:
        """Actions (E, n[, K]) for observations (E, n, D)."""
        extra = {"action_masks": masks[0].flatten(0, 1).cpu().numpy()} if masks and self.takes_masks else {}
        seen = obs.flatten(0, 1).cpu().numpy()
        normalised = self.model.get_vec_normalize_env() if hasattr(self.model, "get_vec_normalize_env") else None
        if normalised is not None:
            seen = normalised.normalize_obs(seen)
        actions, _ = self.model.predict(seen, **extra)
        return torch.as_tensor(actions, device=obs.device).view(*obs.shape[:2], *actions.shape[1:])


def _callables(others: Any) -> Any:
    """Models among the others as callables; everything else as it is."""
    if isinstance(others, dict):
        return {name: _callables(policy) for name, policy in others.items()}
    return _Model(others) if hasattr(others, "predict") else others
