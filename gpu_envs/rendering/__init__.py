"""Rendering of environments: scenes, trails, videos and windows."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from gpu_envs.rendering.inline_video import InlineVideo
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
    from gpu_envs.rendering.video import tile, write_video
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

_ELSEWHERE = {
    "InlineVideo": "gpu_envs.rendering.inline_video",
    "TrailRenderer": "gpu_envs.rendering.trails",
    "Window": "gpu_envs.rendering.window",
    **dict.fromkeys(("tile", "write_video"), "gpu_envs.rendering.video"),
}
__getattr__, __dir__ = lazy_exports(__name__, {**dict.fromkeys(__all__, "gpu_envs.rendering.scene"), **_ELSEWHERE})
