"""Published figures that are not measured here, with their sources."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A published figure."""

    name: str
    what: str
    figure: str
    device: str
    source: str


WARPDRIVE = 2.9e6
"""Env-steps/s of WarpDrive's Tag with 1,000 agents in 2,000 worlds on one GPU."""

PUBLISHED = (
    Published(
        "PufferLib 3",
        "training on its Ocean environments; its package builds only with downloads of its own",
        "up to 4 M steps/s",
        "RTX 5090",
        "puffer.ai, blog",
    ),
    Published(
        "WarpDrive",
        "Tag, 1,000 agents in 2,000 worlds",
        f"{WARPDRIVE / 1e6:g} M env-steps/s",
        "one GPU",
        "arXiv 2108.13976; JMLR 23 (316)",
    ),
)
