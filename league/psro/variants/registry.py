"""Variants of PSRO by name."""

from __future__ import annotations

from collections.abc import Callable

from league.game import Game
from league.psro.config import PSROConfig
from league.psro.variants.anytime import AnytimeVariant
from league.psro.variants.async_pipeline import AsyncPipelineVariant
from league.psro.variants.base import Variant
from league.psro.variants.extensive_form import ExtensiveFormVariant
from league.psro.variants.pipeline import PipelineVariant
from league.psro.variants.rectified import RectifiedVariant
from league.psro.variants.self_play import SelfPlayVariant
from league.psro.variants.standard import StandardVariant

__all__ = ["VARIANTS", "make_variant"]

VARIANTS: dict[str, Callable[[Game, PSROConfig], Variant]] = {
    "standard": StandardVariant,
    "rectified": RectifiedVariant,
    "pipeline": PipelineVariant,
    "anytime": AnytimeVariant,
    "self_play": SelfPlayVariant,
    "xdo": ExtensiveFormVariant,
}
"""Variants by name."""


def make_variant(game: Game, config: PSROConfig) -> Variant:
    """Return the variant of a configuration; raise ConfigError if it does not fit the game."""
    return (AsyncPipelineVariant if config.asynchronous else VARIANTS[config.variant])(game, config)
