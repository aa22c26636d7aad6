"""Seeds, masks and options of ``reset(seed=, options=)`` in the Gymnasium and PettingZoo interfaces."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from gpu_envs.errors import ActionError, ConfigError, describe_tensor, shown
from gpu_envs.runtime.core import Core, Seed
from gpu_envs.utils.suggestions import unknown_name_message
from gpu_envs.utils.tensor_checks import plain


def read(
    core: Core, options: Any, reset_mask: Any = None, names: tuple[str, ...] = ("reset_mask",)
) -> tuple[Any, dict[str, Any]]:
    """Split reset options into the reset mask and the environment's own options.

    Valid keys are ``names`` and the environment's ``EnvDefinition.reset_option_names``.

    Args:
        core: Core to reset.
        options: Options passed to ``reset`` of the view, or None.
        reset_mask: Mask passed to ``reset`` of the view as a separate argument, or None.
        names: Keys of the view itself.

    Raises:
        ConfigError: The options are not a dict, have an unknown key, or contain a second mask.
    """
    if options is None:
        return reset_mask, {}
    if not isinstance(options, Mapping):
        raise ConfigError(f"{core.id}: options: expected a dict by name or None, got {shown(options)}")
    valid = (*names, *core.definition.reset_option_names)
    for key in options:
        if key not in valid:
            raise ConfigError(f"{core.id}: {unknown_name_message('reset option', key, valid)}")
    env_options = dict(options)
    mask = env_options.pop("reset_mask", None)
    if mask is not None and reset_mask is not None:
        raise ConfigError(f"{core.id}: reset_mask was given twice, beside the options and in them; give it once")
    return reset_mask if mask is None else mask, env_options


def reset(
    core: Core, seed: Seed | None, reset_mask: torch.Tensor | None, env_options: dict[str, Any]
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Reset the core, with environment parameters changed by the environment's own options for this reset only.

    For arguments and results see :meth:`~gpu_envs.runtime.core.Core.reset`.

    Raises:
        ConfigError: An option has an invalid value; the environment is unchanged.
    """
    convert = core.definition.reset_options
    values = convert(env_options) if convert is not None and env_options else {}
    if not values:
        return core.reset(seed, reset_mask)
    usual = core.get_params()
    core.set_params(**values)
    try:
        return core.reset(seed, reset_mask)
    finally:
        core.set_params(**{name: usual[name] if len(usual[name]) > 1 else usual[name][0] for name in values})


def single_seed(core: Core, seed: Any) -> int | None:
    """Return a seed as the int that Gymnasium's generators accept, or None.

    Raises:
        ConfigError: The seed is not an int, or negative.
    """
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigError(f"{core.id}: seed: expected an int >= 0 or None, got {shown(seed)}")
    return int(seed)


def seeds_per_env(core: Core, seed: Any) -> int | list[int] | tuple[int, ...] | None:
    """Return one seed for all worlds as an int, or one per world as a list, from a list, an array or a tensor.

    Raises:
        ConfigError: A single seed is not an int, or negative.
    """
    if isinstance(seed, np.ndarray) or plain(seed):
        seed = seed.tolist()
    return seed if isinstance(seed, list | tuple) else single_seed(core, seed)


def env_mask_from_rows(core: Core, mask: Any, rows: int) -> torch.Tensor:
    """Return a mask of worlds (E,) from a mask of rows, with ``rows`` rows per world.

    On a GPU the mask is not checked, because that needs a host synchronization in every step of a rollout. There a
    world is reset if any of its rows is set.

    Raises:
        ActionError: The mask has the wrong shape or dtype, or the rows of a world disagree.
    """
    try:
        tensor = torch.from_numpy(mask) if isinstance(mask, np.ndarray) else mask
    except TypeError:  # an array of strings or objects
        tensor = None
    if not plain(tensor) or tensor.dtype != torch.bool or tensor.shape != (core.num_envs * rows,):
        expected = f"bool ({core.num_envs * rows},), one per row"
        actual = f"{tensor.dtype} {tuple(tensor.shape)}" if plain(tensor) else describe_tensor(mask)
        raise ActionError(f"{core.id}: options['reset_mask']: expected {expected}, got {actual}")
    by_world = tensor.view(core.num_envs, rows)
    worlds = by_world.any(1)
    if tensor.is_cpu:
        torn = worlds & ~by_world.all(1)
        if torn.any():
            reason = f"the {rows} rows of world {int(torn.nonzero()[0])} disagree; set them all alike"
            raise ActionError(f"{core.id}: options['reset_mask'] resets whole worlds, and {reason}")
    return worlds.to(core.device)
