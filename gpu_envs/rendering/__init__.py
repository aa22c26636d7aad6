"""Rendering of environments: scenes, trails, videos and windows."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from gpu_envs.rendering.scene import (
        BLUE,
        DARK,
        GRAY,
        GREEN,
        ORANGE,
        PURPLE,
        RED,
        Color,
        Scene,
        Values,
        boxes,
        circles,
        join,
        lines,
        rasterize,
        rings,
    )
    from gpu_envs.rendering.trails import TrailRenderer
    from gpu_envs.rendering.video import InlineVideo, tile, write_video
    from gpu_envs.rendering.window import Window

__all__ = [
    "BLUE",
    "DARK",
    "GRAY",
    "GREEN",
    "ORANGE",
    "PURPLE",
    "RED",
    "Color",
    "InlineVideo",
    "Scene",
    "TrailRenderer",
    "Values",
    "Window",
    "boxes",
    "circles",
    "join",
    "lines",
    "rasterize",
    "rings",
    "tile",
    "write_video",
]

__getattr__, __dir__ = lazy_exports(__name__)
