"""Scripted policies: hunters chase the nearest prey, prey flees the nearest hunter. What trained ones are measured by.

They look one move ahead: of all choices, hunters take the one that leads closest to the prey that is nearest now, prey
the one that leads farthest from the nearest hunter. They read places from the worlds themselves, as an observation
need not tell all of them (TagContinuous does not tell one's own heading).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_envs.core import Core
from gpu_envs.errors import ConfigError
from gpu_envs.joint import rows_index
from trainers.agents import agents_of, members_of
from warp_kernels.mpe import particles

SCRIPTED = "scripted"
"""What they are called where opponents are named."""


@dataclass(frozen=True)
class Outlook:
    """What the choices of n agents lead to, in E worlds."""

    now: Tensor
    """(E, A, 2), where all agents are."""
    places: Tensor
    """(E, n, C, 2), where each of the C choices takes an agent."""
    others: Tensor
    """(E, A, 2), where all agents are expected by then."""
    outside: Tensor | None = None
    """(E, n, C), what a place costs prey, as a distance; None: nothing."""


PUSHES = ((0.0, 0.0), (-1.0, 0.0), (1.0, 0.0), (0.0, -1.0), (0.0, 1.0))
"""Of SimpleTag: nothing, left, right, down, up."""
MOVES = ((0.0, 0.0), (1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0))
"""Of TagGridworld: stay, +x, -x, +y, -y."""


def simple_tag(core: Core, rows: slice | Tensor, pushes: Tensor) -> Outlook:
    """A constant push (choices, 2) for some steps, without contacts and speed caps; others coast."""
    ahead, state, params = 4, core.world_state, core.get_params()
    kept, dt = float(particles.KEPT_VELOCITY), float(particles.DT)
    glide = (1.0 - kept**ahead) / (1.0 - kept)  # an agent without a push is displaced by so many of its steps
    place, velocity = state["pos"][:, : core.num_agents], state["vel"][:, : core.num_agents]
    coasting = place + dt * glide * velocity
    hunters = len(core.groups["adversary"])
    accel = torch.cat(
        [
            params["adversary_accel"][:, None].expand(-1, hunters),
            params["good_accel"][:, None].expand(-1, core.num_agents - hunters),
        ],
        1,
    )  # (E or 1, A)
    reach = dt * dt * (ahead - glide) / (1.0 - kept) * accel[:, rows]
    places = coasting[:, rows, None] + reach[..., None, None] * pushes
    return Outlook(place, places, coasting, 2.0 * (places.abs() - 0.9).clamp(min=0.0).sum(-1))


def tag_gridworld(core: Core, rows: slice | Tensor, moves: Tensor) -> Outlook:
    """A move (choices, 2), up to the wall; others stay."""
    cell, size = core.world_state["cell"].float(), core.get_params()["grid_length"][:, None, None, None]
    return Outlook(cell, torch.minimum((cell[:, rows, None] + moves).clamp(min=0.0), size), cell)


def tag_continuous(core: Core, rows: slice | Tensor, _: Tensor) -> Outlook:
    """Every acceleration with every turn, up to the wall; others go on as they do. See `Outlook` for shapes."""
    state, params, config = core.world_state, core.get_params(), core.config
    p = {name: value[:, None, None] for name, value in params.items()}
    cap = p["max_speed"] * torch.cat(
        [
            p["skill_level_tagger"].expand(-1, config.num_taggers, -1),
            p["skill_level_runner"].expand(-1, config.num_runners, -1),
        ],
        1,
    )  # (E or 1, A, 1)

    def levels(what: str) -> Tensor:
        """Nothing, then evenly from the least to the largest: (E or 1, 1, levels + 1)."""
        count = getattr(config, f"num_{what}_levels")
        share = torch.linspace(0.0, 1.0, count, device=core.device)
        values = p[f"min_{what}"] + share * (p[f"max_{what}"] - p[f"min_{what}"])
        return torch.nn.functional.pad(values, (1, 0))

    place, speed, direction = state["pos"], state["speed"][..., None], state["direction"][..., None]
    faster = (speed + state["acceleration"][..., None])[:, rows] + levels("acceleration")
    faster = torch.minimum(faster.clamp(min=0.0), cap[:, rows])
    turned = direction[:, rows] + levels("turn")
    heading = torch.stack([turned.cos(), turned.sin()], -1)  # (E, n, turns, 2)
    places = place[:, rows, None] + (faster[..., None, None] * heading[:, :, None]).flatten(2, 3)
    places = torch.minimum(places.clamp(min=0.0), p["grid_length"][..., None])
    return Outlook(place, places, place + speed * torch.cat([direction.cos(), direction.sin()], -1))


@dataclass(frozen=True)
class Script:
    """What there is to know of an environment of two groups, one of which hunts the other."""

    hunters: str
    """The group that hunts."""
    look: Callable[[Core, slice | Tensor, Tensor], Outlook]
    """look(core, rows, moves): what choices lead to."""
    moves: tuple[tuple[float, float], ...] = ()
    """What the choices are, (C, 2), where that is all."""


SCRIPTS: dict[str, Script] = {
    "SimpleTag-v0": Script("adversary", simple_tag, PUSHES),
    "TagContinuous-v0": Script("tagger", tag_continuous),
    "TagGridworld-v0": Script("tagger", tag_gridworld, MOVES),
}
"""By environment."""


class ScriptedPolicy:
    """Chases or flees in the worlds of one core; acts like a `trainers.policy.Policy`."""

    def __init__(self, core: Core, member: str) -> None:
        """Plays a group, or an agent, of a core; raises ConfigError where there is no script for the environment."""
        if core.id not in SCRIPTS:
            raise ConfigError(f"{core.id}: there are scripted policies for {', '.join(SCRIPTS)} only")
        script, own = SCRIPTS[core.id], members_of(core, [member])
        self.core, self.look, self.rows = core, script.look, rows_index(own, core.device)
        self.moves = torch.tensor(script.moves, device=core.device)  # here once: a copy of it is a wait on a GPU
        self.hunts = own[0] in core.groups[script.hunters]
        other = next(group for group in core.groups if (group == script.hunters) != self.hunts)
        self.others = rows_index(core.groups[other], core.device)
        space = agents_of(core, [member]).space
        self.sizes = [int(n) for n in getattr(space, "nvec", ())]
        self.throttles = core.action_buffer.dtype == torch.float32
        self.seed(0)

    @torch.no_grad()
    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, memory: Tensor | None = None
    ) -> Tensor:
        """Actions (E, n[, K]) in the core's worlds as they stand; its arguments are those of a `Policy`, all unused."""
        look = self.look(self.core, self.rows, self.moves)
        ways = look.now[:, None, self.others] - look.now[:, self.rows, None]  # (E, n, others, 2)
        gone = ~self.core.alive[:, self.others]
        nearest = ways.square().sum(-1).masked_fill(gone[:, None], torch.inf).argmin(-1)  # (E, n)
        there = look.others[:, self.others].gather(1, nearest[..., None].expand(-1, -1, 2))
        distance = (look.places - there[:, :, None]).square().sum(-1).sqrt()  # (E, n, C)
        if not self.hunts and look.outside is not None:
            distance = distance - look.outside
        choice = distance.argmin(-1) if self.hunts else distance.argmax(-1)
        if self.throttles:
            return torch.zeros_like(distance).scatter_(-1, choice[..., None], 1.0)  # all of one throttle
        if not self.sizes:
            return choice
        return torch.stack([choice // self.sizes[1], choice % self.sizes[1]], -1)

    def memory(self, *shape: int) -> None:
        """It remembers nothing."""
        return

    def seed(self, seed: int) -> None:
        """It draws nothing at random."""


class DeafListener:
    """Of SimpleSpeakerListener: goes where it loses least without knowing which landmark is meant, their middle.

    What a listener earns beyond this, it earns by understanding.
    """

    COAST = 5
    """Steps that it looks ahead."""

    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, memory: Tensor | None = None
    ) -> Tensor:
        """The push (E, n) after which it rolls closest to the middle; from observations (E, n, D)."""
        velocity, middle = obs[..., :2], obs[..., 2:8].unflatten(-1, (3, 2)).mean(-2)
        kept, dt = float(particles.KEPT_VELOCITY), float(particles.DT)
        pushes = torch.tensor(PUSHES, device=obs.device) * (5.0 * dt)  # mpe2's sensitivity of 5
        speed = kept * velocity.unsqueeze(-2) + pushes
        rolls = speed * dt * (1.0 - kept**self.COAST) / (1.0 - kept)
        return (middle.unsqueeze(-2) - rolls).square().sum(-1).argmin(-1)

    def memory(self, *shape: int) -> None:
        """It remembers nothing."""

    def seed(self, seed: int) -> None:
        """It draws nothing."""
