"""Variants of PSRO: the best responses of an iteration, and the opponents that they respond to."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from league.psro.variants.anytime import AnytimeVariant
    from league.psro.variants.base import Variant
    from league.psro.variants.extensive_form import ExtensiveFormVariant
    from league.psro.variants.pipeline import PipelineVariant
    from league.psro.variants.rectified import RectifiedVariant
    from league.psro.variants.self_play import SelfPlayVariant
    from league.psro.variants.standard import StandardVariant

_MODULES = {
    "AnytimeVariant": "league.psro.variants.anytime",
    "ExtensiveFormVariant": "league.psro.variants.extensive_form",
    "PipelineVariant": "league.psro.variants.pipeline",
    "RectifiedVariant": "league.psro.variants.rectified",
    "SelfPlayVariant": "league.psro.variants.self_play",
    "StandardVariant": "league.psro.variants.standard",
    "Variant": "league.psro.variants.base",
}

__all__ = [
    "AnytimeVariant",
    "ExtensiveFormVariant",
    "PipelineVariant",
    "RectifiedVariant",
    "SelfPlayVariant",
    "StandardVariant",
    "Variant",
]

__getattr__, __dir__ = lazy_exports(__name__, _MODULES)
