"""What ``reset(seed=, options=)`` of Gymnasium's and PettingZoo's environments means for a core."""

from typing import Any

import numpy as np
import torch

from gpu_envs.core import Core
from gpu_envs.errors import ActionError, ConfigError


def reset(
    core: Core, seed: int | torch.Tensor | None, mask: torch.Tensor | None, options: dict[str, Any] | None
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """See :meth:`gpu_envs.core.Core.reset`; the constants that the options name are theirs while episodes start.

    Raises:
        ConfigError: An option has a value that makes no sense; nothing has been reset.
    """
    known = core.definition.reset_options
    values = known(options) if known is not None and options else {}
    if not values:
        return core.reset(seed, mask)
    usual = core.get_params()
    core.set_params(**values)
    try:
        return core.reset(seed, mask)
    finally:
        core.set_params(**{name: usual[name] if len(usual[name]) > 1 else usual[name][0] for name in values})


def one_seed(core: Core, seed: Any) -> int | None:
    """A seed as the int that Gymnasium's generators take; None stays.

    Raises:
        ConfigError: No int, or a negative one.
    """
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigError(f"{core.id}: seed must be an int >= 0 or None, got {seed!r}")
    return int(seed)


def many_seeds(core: Core, seed: Any) -> int | torch.Tensor | None:
    """A seed for all worlds as by :func:`one_seed`, seeds by world as an int64 tensor (E,).

    Raises:
        ConfigError: Seeds that are no ints, or not one per world.
    """
    if not isinstance(seed, (list, tuple, np.ndarray, torch.Tensor)):
        return one_seed(core, seed)
    keys = seed if isinstance(seed, list | tuple) else seed.tolist()
    worlds = core.num_envs
    if not isinstance(keys, list | tuple) or len(keys) != worlds:
        got = f"{len(keys)} seeds" if isinstance(keys, list | tuple) else repr(keys)
        raise ConfigError(f"{core.id}: seed must be an int or one int per world, {worlds} of them, got {got}")
    for world, key in enumerate(keys):
        if isinstance(key, bool) or not isinstance(key, int | np.integer):
            raise ConfigError(f"{core.id}: seed[{world}] must be an int, got {key!r}")
    words = [int(key) & (2**64 - 1) for key in keys]  # unsigned, as the core reads an int
    signed = [word - 2**64 if word >= 2**63 else word for word in words]
    return torch.tensor(signed, dtype=torch.int64, device=core.device)


def worlds_of(core: Core, mask: Any, rows: int) -> torch.Tensor:
    """A mask of rows, so many for each world, as a mask of worlds (E,).

    Raises:
        ActionError: Another shape or dtype, or rows that disagree about their world. On a GPU the mask is not looked
            at, since that would wait in every step of a rollout: there one row resets its world.
    """
    given = torch.as_tensor(mask)
    if given.dtype != torch.bool or given.shape != (core.num_envs * rows,):
        wanted, got = f"bool ({core.num_envs * rows},), one per row", f"{given.dtype} {tuple(given.shape)}"
        raise ActionError(f"{core.id}: options['reset_mask'] must be {wanted}, got {got}")
    by_world = given.view(core.num_envs, rows)
    worlds = by_world.any(1)
    if given.is_cpu:
        torn = worlds & ~by_world.all(1)
        if torn.any():
            which = f"the {rows} rows of world {int(torn.nonzero()[0])} disagree; set them all alike"
            raise ActionError(f"{core.id}: options['reset_mask'] resets whole worlds, and {which}")
    return worlds.to(core.device)
