"""Make the moving pictures: docs/envs/ROOM/NAME.webp of every environment, and docs/tag.webp for the README.

    python -m docs.scripts.pictures                        all of them
    python -m docs.scripts.pictures tag/tag_gridworld      only those named, or "tag" for the README's

Who plays is what ``SHOWS`` says: a model of the zoo, policies that are trained first, into out/pictures/ROOM/NAME, if
they are not there, or chance. A page's line ``![words](NAME.webp)`` gets its words from ``caption``.
"""

import itertools
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from docs.scripts.tables import PAGES, ROOT, names

OUT = ROOT / "out" / "pictures"
STRIP = ROOT / "docs" / "tag.webp"
SIDE = 224
"""Side of a world [pixels], if its picture sets none."""
LARGEST, LARGEST_STRIP = 300_000, 500_000
"""Largest file of an environment and of the README [bytes]."""
OF_STRIP = 23
"""Frames of the README's picture; more make too large a file."""
COLORS = 64
"""Number of colors of a picture; more make a larger file."""
FPS = (2, 12)
"""Slowest and fastest pace of a picture [1/s]."""
_OWN_PLACES = "--sharing agent --total-steps 500000 --learner.learning-rate-final 3e-4"
"""Agents that do not see each other, but take up places each."""
_MPE = "--learner.rollout-length 25 --learner.learning-rate 3e-3 --learner.gamma 0.95 --learner.reward-scale 0.1"
_WORKERS = "--env-arg tax_model=us-federal-single-filer-2018-scaled --anneal energy_cost=[0,0.21,600000]"
"""The training of benchmarks/experiments/economy.yaml with the federal taxes."""

_KITCHEN = {"layout": "grounded_coord_simple", "agent_view_size": 2, "random_reset": True}


@dataclass(frozen=True)
class MovingPicture:
    """Policies and length of an animation."""

    zoo: str = ""
    """Model of the zoo that plays."""
    scripted: bool = False
    """The scripted policy of the environment plays."""
    train: str = ""
    """Options of ``gpu-envs train`` that make the policies."""
    env: dict[str, Any] = field(default_factory=dict)
    """Settings of the environment for random play."""
    frames: int = 48
    every: int = 1
    """Steps between two frames."""
    trails: int | None = None
    """As of :class:`gpu_envs.rendering.trails.TrailRenderer`."""
    seed: int = 7
    side: int = SIDE
    """Side of a world [pixels]."""

    def checkpoint(self, page: str) -> Path | None:
        """Path of the policies; None for random actions."""
        return Path(f"zoo:{self.zoo}") if self.zoo else OUT / page if self.train else None

    def caption(self) -> str:
        """Description of the policies."""
        if self.scripted:
            return "scripted policy"
        return "trained policies" if self.zoo or self.train else "random play"


SHOWS = {
    "classic/acrobot": MovingPicture(
        train="--total-steps 60000 --learner.gamma 0.99 --learner.learning-rate 3e-3 --learner.reward-scale 0.1",
        every=2,
    ),
    "classic/cartpole": MovingPicture(zoo="cartpole-ppo", every=3),
    "classic/mountain_car": MovingPicture(every=3),
    "classic/mountain_car_continuous": MovingPicture(every=3),
    "classic/pendulum": MovingPicture(zoo="pendulum-sac", every=2),
    "games/connect_four": MovingPicture(frames=30),
    "grid/coin_game": MovingPicture(trails=0),
    "grid/commons_harvest": MovingPicture(frames=12, trails=0),
    "grid/connector": MovingPicture(frames=20, trails=0),
    "grid/pursuit": MovingPicture(frames=11, trails=0),
    "grid/level_based_foraging": MovingPicture(zoo="foraging-ippo"),
    "grid/robot_warehouse": MovingPicture(zoo="warehouse-ippo", every=2),
    "kitchen/overcooked": MovingPicture(zoo="overcooked-ippo", every=2, trails=0),
    "kitchen/overcooked_v2": MovingPicture(env=_KITCHEN, frames=14, trails=0),
    "smax/smax": MovingPicture(zoo="smax-mappo", trails=0),
    "economy/gather_trade_build": MovingPicture(train=_WORKERS, frames=45, every=20, side=336),
    "economy/one_step": MovingPicture(zoo="one-step-economy-ppo", frames=12),
    "cards/hanabi": MovingPicture(scripted=True, frames=31, seed=2837),  # two lives left
    "games/switch_riddle": MovingPicture(frames=16, trails=0),
    "games/two_step_game": MovingPicture(zoo="two-step-qmix", frames=12),
    "mpe/collect_treasure": MovingPicture(scripted=True),
    "mpe/simple": MovingPicture(train=f"--total-steps 50000 {_MPE}"),
    "mpe/simple_adversary": MovingPicture(train=f"--total-steps 80000 {_MPE}"),
    "mpe/simple_formation": MovingPicture(train=_OWN_PLACES),
    "mpe/simple_line": MovingPicture(train=_OWN_PLACES),
    "mpe/simple_push": MovingPicture(train=f"--total-steps 80000 {_MPE}"),
    "mpe/simple_speaker_listener": MovingPicture(zoo="speaker-listener-mappo"),
    "mpe/simple_spread": MovingPicture(zoo="simple-spread-mappo"),
    "mpe/simple_tag": MovingPicture(zoo="simple-tag-ppo"),
    "mpe/simple_world_comm": MovingPicture(train=f"--total-steps 400000 {_MPE}"),
    "vmas/flocking": MovingPicture(frames=40),
    "vmas/navigation": MovingPicture(frames=24),
    "tag/tag_continuous": MovingPicture(zoo="tag-continuous", frames=24, trails=3),
    "tag/tag_gridworld": MovingPicture(zoo="tag-gridworld"),
}
"""Contents of animations that are not random rollouts, by environment."""
BRIEF = MovingPicture(frames=16)
"""Frame rate of turn-based games."""


def show_of(page: str) -> MovingPicture:
    """Return the image settings of an environment by the place of its page."""
    return SHOWS.get(page) or (BRIEF if page.startswith("games/") else MovingPicture())


def policies(page: str, id: str) -> Path | None:
    """Return the checkpoint that plays; train it if it is needed and missing."""
    show = show_of(page)
    checkpoint = show.checkpoint(page)
    if show.train and not (OUT / page / "checkpoints").exists():
        part = OUT / f"{page}.part"  # one that was killed is no training
        shutil.rmtree(part, ignore_errors=True)
        options = f"{id} {show.train} --seed 0 --device cpu --eval-episodes 0 --no-video --run-dir {part}"
        command = Path(sys.executable).with_name("gpu-envs")
        subprocess.run([str(command), "train", *shlex.split(options)], cwd=ROOT, check=True)
        part.rename(OUT / page)
    return checkpoint


def scripted(core: Any) -> Callable[..., Any]:
    """Return the function that chooses the actions of all agents by the scripted policy."""
    from trainers.evaluation.scripted_policies import scripted_policy

    players = [scripted_policy(core, group) for group in core.groups]

    def act(*_: Any) -> Any:
        action = core.sample_actions()
        for player in players:
            action[:, player.rows] = player.act(core.obs)
        return action

    return act


def film(page: str, id: str, count: int | None = None) -> tuple[Iterator[np.ndarray], float]:
    """Return the frames of an environment's image, (side, side, 3) uint8 each, and their rate [1/s].

    Args:
        page: Page of the environment, such as mpe/simple_tag.
        id: Id of the environment.
        count: Number of frames; None: that of the environment's image.
    """
    from gpu_envs.rendering.trails import TrailRenderer
    from gpu_envs.runtime.factory import make_core
    from trainers.evaluation.checkpoint_play import load_play

    show, checkpoint = show_of(page), policies(page, id)
    act: Callable[..., Any]
    if show.scripted:
        core = make_core(id, 1, "cpu", seed=show.seed, autoreset="next_step")
        act = scripted(core)
    elif checkpoint is None:
        core = make_core(id, 1, "cpu", seed=show.seed, autoreset="next_step", **show.env)
        act = lambda *_: core.sample_actions()  # noqa: E731
    else:
        play = load_play(checkpoint, {}, 1, "cpu", show.seed)
        core, act = play.core, play.act
    pace = min(max(core.render_fps / show.every, FPS[0]), FPS[1])

    def frames() -> Iterator[np.ndarray]:
        camera = TrailRenderer(core, 0, show.side, show.trails)
        obs, info = core.reset()
        for step in range((count or show.frames) * show.every):
            if step % show.every == 0:
                yield camera.frame()[0]
            else:
                camera.scene()
            obs, _, _, _, info = core.step(act(obs, info))

    return frames(), pace


def with_palette(frames: Iterator[np.ndarray]) -> np.ndarray:
    """Return frames (W, height, width, 3) uint8 with one palette of `COLORS`."""
    from PIL import Image

    stack = np.stack([*frames])
    tall = Image.fromarray(stack.reshape(-1, *stack.shape[2:]))
    palette = tall.quantize(COLORS, kmeans=2, dither=Image.Dither.NONE)
    return np.asarray(palette.convert("RGB")).reshape(stack.shape)


def fresh(page: str, id: str, count: int = 4) -> bool:
    """Return whether the first frame of an image equals a new one, except for rounding on other machines.

    A picture of trained policies cannot be checked quickly, and counts as fresh.
    """
    import imageio.v3 as iio

    if show_of(page).train:
        return True
    changing = (next(same) for _, same in itertools.groupby(film(page, id)[0], key=np.ndarray.tobytes))
    frames = np.stack([*itertools.islice(changing, count)]).astype(int)  # a .webp keeps no frame twice in a row
    committed = np.stack([frame[..., :3] for frame in itertools.islice(iio.imiter(PAGES / f"{page}.webp"), count)])
    palette = np.unique(committed.reshape(-1, 3), axis=0).astype(int)
    colors, index = np.unique(frames.reshape(-1, 3), axis=0, return_inverse=True)
    nearest = palette[((colors[:, None] - palette) ** 2).sum(-1).argmin(1)]
    frames = nearest[index].reshape(frames.shape)
    return committed.shape == frames.shape and float(np.abs(committed - frames).mean()) < 0.15


def captioned(text: str, page: str) -> str:
    """Return a page with the animated image and a caption that names the policies."""
    name = page.rpartition("/")[2]
    pattern = re.compile(
        rf"!\[([^\]]*?)(?:; (?:trained policies|scripted policy|random play))?\]\({name}\.(?:png|webp)\)"
    )
    return pattern.sub(lambda match: f"![{match[1]}; {show_of(page).caption()}]({name}.webp)", text)


def strip(ids: dict[str, str]) -> tuple[Iterator[np.ndarray], float]:
    """Return the frames of the three Tags side by side, for the README."""
    films = [film(page, ids[page], OF_STRIP)[0] for page in ids if "tag" in page.rpartition("/")[2]]
    gap = np.full((SIDE, 9, 3), 255, np.uint8)
    together = zip(*films, strict=True)
    return (np.concatenate([part for frame in frames for part in (gap, frame)][1:], 1) for frames in together), 9.0


def main(argv: list[str]) -> int:
    """Make what is named, or everything; see the top of this file."""
    from gpu_envs.rendering.video import write_video

    ids = names()
    for name in argv or [*sorted(ids), "tag"]:
        frames, pace = strip(ids) if name == "tag" else film(name, ids[name])
        path, largest, knob = PAGES / f"{name}.webp", LARGEST, "SHOWS"
        if name == "tag":
            path, largest, knob = STRIP, LARGEST_STRIP, "OF_STRIP"
        written = write_video(OUT / f"{name}.webp", with_palette(frames), pace)
        size = written.stat().st_size
        if size > largest:
            raise SystemExit(
                f"{written.relative_to(ROOT)}: {size} bytes, at most {largest} allowed; fewer frames in {knob}"
            )
        shutil.move(written, path)
        if name != "tag":
            page = PAGES / f"{name}.md"
            page.write_text(captioned(page.read_text(encoding="utf-8"), name), encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {size / 1000:.0f} KB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
