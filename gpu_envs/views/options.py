"""Options of a reset, as Gymnasium's environments take them: they hold for that reset only."""

from typing import Any

import torch

from gpu_envs.core import Core


def reset(
    core: Core, seed: int | torch.Tensor | None, mask: torch.Tensor | None, options: dict[str, Any] | None
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """:meth:`gpu_envs.core.Core.reset`, with the constants of the rules that the options set while it starts.

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
