"""What ``reset(seed=, options=)`` of Gymnasium's and PettingZoo's environments means for a core."""

import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from gpu_envs.checks import plain
from gpu_envs.core import Core
from gpu_envs.errors import ActionError, ConfigError, described, listed, shown


def read(
    core: Core, options: Any, reset_mask: Any = None, names: tuple[str, ...] = ("reset_mask",)
) -> tuple[Any, dict[str, Any]]:
    """Split the options of a reset into the mask of worlds and the environment's own options.

    Known keys are ``names`` and the environment's ``Definition.reset_option_names``.

    Args:
        core: The worlds.
        options: As given to the view's ``reset``; None for none.
        reset_mask: The mask that the view's ``reset`` was given beside the options.
        names: Keys that the view takes, whatever the environment.

    Raises:
        ConfigError: No dict, an unknown key, or a second mask.
    """
    if options is None:
        return reset_mask, {}
    if not isinstance(options, Mapping):
        raise ConfigError(f"{core.id}: options must be a dict by name or None, got {shown(options)}")
    known = (*names, *core.definition.reset_option_names)
    for key in options:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {listed(known) or 'none'}"
            raise ConfigError(f"{core.id}: reset has no option {shown(key)}; {hint}")
    own = dict(options)
    given = own.pop("reset_mask", None)
    if given is not None and reset_mask is not None:
        raise ConfigError(f"{core.id}: reset_mask was given twice, beside the options and in them; give it once")
    return reset_mask if given is None else given, own


def reset(
    core: Core, seed: int | torch.Tensor | None, reset_mask: torch.Tensor | None, own: dict[str, Any]
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """See :meth:`gpu_envs.core.Core.reset`; the constants that the environment's own options name hold for it alone.

    Raises:
        ConfigError: An option has a value that makes no sense; nothing has been reset.
    """
    known = core.definition.reset_options
    values = known(own) if known is not None and own else {}
    if not values:
        return core.reset(seed, reset_mask)
    usual = core.get_params()
    core.set_params(**values)
    try:
        return core.reset(seed, reset_mask)
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
        raise ConfigError(f"{core.id}: seed must be an int >= 0 or None, got {shown(seed)}")
    return int(seed)


def many_seeds(core: Core, seed: Any) -> int | torch.Tensor | None:
    """A seed for all worlds as by :func:`one_seed`, seeds by world as an int64 tensor (E,).

    Raises:
        ConfigError: Seeds that are no ints, or not one per world.
    """
    if not isinstance(seed, list | tuple | np.ndarray) and not plain(seed):
        return one_seed(core, seed)
    keys = seed if isinstance(seed, list | tuple) else seed.tolist()
    worlds = core.num_envs
    if not isinstance(keys, list | tuple) or len(keys) != worlds:
        got = f"{len(keys)} seeds" if isinstance(keys, list | tuple) else shown(keys)
        raise ConfigError(f"{core.id}: seed must be an int or one int per world, {worlds} of them, got {got}")
    for world, key in enumerate(keys):
        if isinstance(key, bool) or not isinstance(key, int | np.integer):
            raise ConfigError(f"{core.id}: seed[{world}] must be an int, got {shown(key)}")
    words = [int(key) & (2**64 - 1) for key in keys]  # unsigned, as the core reads an int
    signed = [word - 2**64 if word >= 2**63 else word for word in words]
    return torch.tensor(signed, dtype=torch.int64, device=core.device)


def worlds_of(core: Core, mask: Any, rows: int) -> torch.Tensor:
    """A mask of rows, so many for each world, as a mask of worlds (E,).

    Raises:
        ActionError: Another shape or dtype, or rows that disagree about their world. On a GPU the mask is not looked
            at, since that would wait in every step of a rollout: there one row resets its world.
    """
    try:
        given = torch.from_numpy(mask) if isinstance(mask, np.ndarray) else mask
    except TypeError:  # an array of text or objects
        given = None
    if not plain(given) or given.dtype != torch.bool or given.shape != (core.num_envs * rows,):
        wanted = f"bool ({core.num_envs * rows},), one per row"
        got = f"{given.dtype} {tuple(given.shape)}" if plain(given) else described(mask)
        raise ActionError(f"{core.id}: options['reset_mask'] must be {wanted}, got {got}")
    by_world = given.view(core.num_envs, rows)
    worlds = by_world.any(1)
    if given.is_cpu:
        torn = worlds & ~by_world.all(1)
        if torn.any():
            which = f"the {rows} rows of world {int(torn.nonzero()[0])} disagree; set them all alike"
            raise ActionError(f"{core.id}: options['reset_mask'] resets whole worlds, and {which}")
    return worlds.to(core.device)
