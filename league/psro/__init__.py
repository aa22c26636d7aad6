"""Policy-space response oracles: the loop, its variants and its oracles."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from league.psro.config import PSROConfig
    from league.psro.psro import PSRO

__all__ = ["PSRO", "PSROConfig"]

__getattr__, __dir__ = lazy_exports(__name__, {"PSRO": "league.psro.psro", "PSROConfig": "league.psro.config"})
