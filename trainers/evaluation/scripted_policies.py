"""Scripted policies as baselines: hunters chase the nearest prey, prey flees from the nearest hunter.

The policies look one move ahead. A hunter takes the action that leads closest to its nearest prey; prey takes the
action that leads farthest from its nearest hunter. Positions are read from the state of the environments, because
observations can be incomplete (TagContinuous does not observe an agent's own heading).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gpu_envs.definition import registry
from gpu_envs.errors import ConfigError, shown
from gpu_envs.runtime.core import Core
from gpu_envs.utils.agent_rows import rows_index
from trainers.base.agent_group import make_agent_group
from trainers.evaluation.economy_policies import EconomyPolicy
from trainers.evaluation.foraging_policies import ForagingPolicy
from trainers.evaluation.formation_policies import PUSHES, FormationPolicy
from trainers.evaluation.state_policy import StatePolicy
from trainers.evaluation.treasure_policies import TreasurePolicy
from trainers.evaluation.warehouse_policies import WarehousePolicy
from trainers.models.policy import PolicyProtocol
from warp_kernels.mpe import particles

SCRIPTED = "scripted"
"""Name of these policies in options for opponents."""


@dataclass(frozen=True)
class ActionOutcomes:
    """Predicted positions after each action of n agents, in E environments."""

    now: Tensor
    """Current positions of all agents, (E, A, 2)."""
    places: Tensor
    """Position of an agent after each of C actions, (E, n, C, 2)."""
    predicted: Tensor
    """Predicted positions of all agents, (E, A, 2)."""
    outside: Tensor | None = None
    """Cost of a position for prey, as a distance, (E, n, C); None: no cost."""


MOVES = ((0.0, 0.0), (1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0))
"""Moves of the actions in TagGridworld: stay, +x, -x, +y, -y."""


def simple_tag(core: Core, rows: slice | Tensor, pushes: Tensor) -> ActionOutcomes:
    """Predict positions after some steps of constant acceleration, (C, 2), without contacts and speed limits."""
    ahead, state, params = 4, core.world_state, core.get_params()
    decay, dt = float(particles.KEPT_VELOCITY), float(particles.DT)
    glide = (1.0 - decay**ahead) / (1.0 - decay)  # displacement without acceleration, in units of one step
    positions, velocity = state["pos"][:, : core.num_agents], state["vel"][:, : core.num_agents]
    coasting = positions + dt * glide * velocity
    hunters = len(core.groups["adversary"])
    accel = torch.cat(
        [
            params["adversary_accel"][:, None].expand(-1, hunters),
            params["good_accel"][:, None].expand(-1, core.num_agents - hunters),
        ],
        1,
    )  # (E or 1, A)
    reach = dt * dt * (ahead - glide) / (1.0 - decay) * accel[:, rows]
    places = coasting[:, rows, None] + reach[..., None, None] * pushes
    return ActionOutcomes(positions, places, coasting, 2.0 * (places.abs() - 0.9).clamp(min=0.0).sum(-1))


def tag_gridworld(core: Core, rows: slice | Tensor, moves: Tensor) -> ActionOutcomes:
    """Predict positions after a move, (C, 2), limited by the walls; other agents stay."""
    cell, size = core.world_state["cell"].float(), core.get_params()["grid_length"][:, None, None, None]
    return ActionOutcomes(cell, torch.minimum((cell[:, rows, None] + moves).clamp(min=0.0), size), cell)


def tag_continuous(core: Core, rows: slice | Tensor, _: Tensor) -> ActionOutcomes:
    """Predict positions for all pairs of acceleration and turn, limited by walls; see `ActionOutcomes`."""
    state, params, config = core.world_state, core.get_params(), core.config
    p = {name: value[:, None, None] for name, value in params.items()}
    cap = p["max_speed"] * torch.cat(
        [
            p["skill_level_tagger"].expand(-1, config.num_taggers, -1),
            p["skill_level_runner"].expand(-1, config.num_runners, -1),
        ],
        1,
    )  # (E or 1, A, 1)

    def levels(quantity: str) -> Tensor:
        """Return zero and evenly spaced levels from the smallest to the largest, (E or 1, 1, levels + 1)."""
        count = getattr(config, f"num_{quantity}_levels")
        share = torch.linspace(0.0, 1.0, count, device=core.device)
        values = p[f"min_{quantity}"] + share * (p[f"max_{quantity}"] - p[f"min_{quantity}"])
        return torch.nn.functional.pad(values, (1, 0))

    positions, speed, direction = state["pos"], state["speed"][..., None], state["direction"][..., None]
    faster = (speed + state["acceleration"][..., None])[:, rows] + levels("acceleration")
    faster = torch.minimum(faster.clamp(min=0.0), cap[:, rows])
    turned = direction[:, rows] + levels("turn")
    heading = torch.stack([turned.cos(), turned.sin()], -1)  # (E, n, turns, 2)
    places = positions[:, rows, None] + (faster[..., None, None] * heading[:, :, None]).flatten(2, 3)
    places = torch.minimum(places.clamp(min=0.0), p["grid_length"][..., None])
    return ActionOutcomes(positions, places, positions + speed * torch.cat([direction.cos(), direction.sin()], -1))


@dataclass(frozen=True)
class Script:
    """Description of an environment in which one group hunts the other."""

    hunters: str
    """Name of the hunting group."""
    look: Callable[[Core, slice | Tensor, Tensor], ActionOutcomes]
    """Predicts the outcomes of actions: look(core, rows, moves)."""
    moves: tuple[tuple[float, float], ...] = ()
    """Effect of each action, (C, 2), if it is constant."""


SCRIPTS: dict[str, Script] = {
    "SimpleTag-v0": Script("adversary", simple_tag, PUSHES),
    "TagContinuous-v0": Script("tagger", tag_continuous),
    "TagGridworld-v0": Script("tagger", tag_gridworld, MOVES),
}
"""Scripts by environment id."""


class ScriptedPolicy(StatePolicy):
    """Chase or flee in the environments of one core; has the interface of `trainers.models.policy.Policy`."""

    env_ids: ClassVar[tuple[str, ...]] = tuple(SCRIPTS)

    def __init__(self, core: Core, member: str) -> None:
        """Control a group or an agent of a core, see `StatePolicy`."""
        super().__init__(core, member)
        script = SCRIPTS[core.id]
        self.look: Callable[[Core, slice | Tensor, Tensor], ActionOutcomes] = script.look
        self.moves: Tensor = torch.tensor(script.moves, device=core.device)  # a copy per step would synchronize
        self.hunts: bool = self.agent_rows[0] in core.groups[script.hunters]
        self.script = "chase the nearest" if self.hunts else "flee from the nearest"
        other = next(group for group in core.groups if (group == script.hunters) != self.hunts)
        self.opponents: slice | Tensor = rows_index(core.groups[other], core.device)
        space = make_agent_group(core, [member]).space
        self.sizes: list[int] = [int(n) for n in getattr(space, "nvec", ())]
        self.throttles: bool = core.action_buffer.dtype == torch.float32

    def _act(self, mask: Tensor | None) -> Tensor:
        look = self.look(self.core, self.rows, self.moves)
        ways = look.now[:, None, self.opponents] - look.now[:, self.rows, None]  # (E, n, others, 2)
        gone = ~self.core.alive[:, self.opponents]
        nearest = ways.square().sum(-1).masked_fill(gone[:, None], torch.inf).argmin(-1)  # (E, n)
        target = look.predicted[:, self.opponents].gather(1, nearest[..., None].expand(-1, -1, 2))
        distance = (look.places - target[:, :, None]).square().sum(-1).sqrt()  # (E, n, C)
        if not self.hunts and look.outside is not None:
            distance = distance - look.outside
        choice = distance.argmin(-1) if self.hunts else distance.argmax(-1)
        if self.throttles:
            return torch.zeros_like(distance).scatter_(-1, choice[..., None], 1.0)  # full weight on one action
        if not self.sizes:
            return choice
        return torch.stack([choice // self.sizes[1], choice % self.sizes[1]], -1)


class HanabiPolicy(StatePolicy):
    """Play hinted cards and hint playable ones, by the rule of SimpleAgent of the Hanabi Learning Environment.

    The first own card with a hint is played. Otherwise, with an information token, the color of the first playable card
    of another player is hinted, if that color was not hinted. Otherwise the first card is discarded, or played where
    all tokens are there.
    """

    env_ids: ClassVar[tuple[str, ...]] = ("Hanabi-v0",)
    script = "play hinted cards"

    def __init__(self, core: Core, member: str) -> None:
        """Control a group or an agent of a core, see `StatePolicy`."""
        super().__init__(core, member)
        players = core.num_agents
        order = [[(row + offset) % players for offset in range(1, players)] for row in self.agent_rows]
        self.partners: Tensor = torch.tensor(order, device=core.device)  # (n, P - 1) the other players in turn

    def _act(self, mask: Tensor | None) -> Tensor:
        state, sizes = self.core.world_state, self.core.config.sizes
        size, colors, ranks = sizes.hand_size, sizes.colors, sizes.ranks
        hand, revealed = state["hand"].long(), state["revealed"]
        hinted = (revealed[:, self.rows] > 0) & (hand[:, self.rows] >= 0)  # (E, n, H)
        color = hand.clamp(min=0) // ranks
        height = state["fireworks"].long().gather(1, color.flatten(1)).view_as(hand)
        playable = (hand >= 0) & (hand % ranks == height)
        helps = playable & ((revealed & ((1 << colors) - 1)) == 0)
        helps, colors_of = (table[:, self.partners].flatten(2) for table in (helps, color))  # (E, n, (P - 1) * H)
        first = helps.int().argmax(-1)
        hint = 2 * size + first // size * colors + colors_of.gather(-1, first[..., None]).squeeze(-1)
        tokens = state["information"][:, None]
        last_resort = torch.where(tokens < sizes.information_tokens, 0, size).expand_as(hint)
        choice = torch.where((tokens > 0) & helps.any(-1), hint, last_resort)
        return torch.where(hinted.any(-1), size + hinted.int().argmax(-1), choice)


SCRIPTED_POLICIES: dict[str, Callable[[Core, str], PolicyProtocol]] = {
    **dict.fromkeys(SCRIPTS, ScriptedPolicy),
    "CollectTreasure-v0": TreasurePolicy,
    "Hanabi-v0": HanabiPolicy,
    "LevelBasedForaging-v0": ForagingPolicy,
    "OneStepEconomy-v0": EconomyPolicy,
    "RobotWarehouse-v0": WarehousePolicy,
    "SimpleFormation-v0": FormationPolicy,
}
"""Scripted policies of this library's environments by id; others register their own, see `gpu_envs.register`."""


def has_script(env_id: str) -> bool:
    """Return whether there are scripted policies for an environment."""
    return _script_of(env_id) is not None


def _script_of(env_id: str) -> Callable[[Core, str], PolicyProtocol] | None:
    return registry.find(env_id).scripted or SCRIPTED_POLICIES.get(env_id)


def scripted_policy(core: Core, member: str) -> PolicyProtocol:
    """Return the scripted policy of a group or an agent.

    Raises:
        ConfigError: There is no script for the environment, or its policy lacks a method.
    """
    script = _script_of(core.id)
    if script is None:
        raise ConfigError(
            f"{core.id}: there are scripted policies for {', '.join(SCRIPTED_POLICIES)} only; an environment of your "
            "own has what gpu_envs.register(..., scripted=) names"
        )
    policy = script(core, member)
    for method in ("act", "initial_hidden_state", "seed"):
        if not callable(getattr(policy, method, None)):
            raise ConfigError(f"{core.id}: scripted: expected a policy with the method {method}, got {shown(policy)}")
    return policy


def scripted_policies_of(core: Core, sides: Mapping[str, Sequence[str]]) -> dict[str, PolicyProtocol]:
    """Return the scripted policies of groups or agents by name, from those that each policy controls by its name.

    Raises:
        ConfigError: See `scripted_policy`.
    """
    return {member: scripted_policy(core, member) for members in sides.values() for member in members}


class DeafListener:
    """Baseline for SimpleSpeakerListener: move to the middle of the landmarks, without using the speaker's message.

    A listener with a higher return uses the message.
    """

    COAST = 5
    """Steps of the prediction."""

    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, hidden_state: Tensor | None = None
    ) -> Tensor:
        """Return the accelerations (E, n) that lead closest to the middle, from observations (E, n, D)."""
        velocity, middle = obs[..., :2], obs[..., 2:8].unflatten(-1, (3, 2)).mean(-2)
        decay, dt = float(particles.KEPT_VELOCITY), float(particles.DT)
        pushes = torch.tensor(PUSHES, device=obs.device) * (5.0 * dt)  # mpe2's sensitivity of 5
        speed = decay * velocity.unsqueeze(-2) + pushes
        rolls = speed * dt * (1.0 - decay**self.COAST) / (1.0 - decay)
        return (middle.unsqueeze(-2) - rolls).square().sum(-1).argmin(-1)

    def initial_hidden_state(self, *shape: int) -> None:
        """Return None: the policy is not recurrent."""

    def seed(self, seed: int) -> None:
        """Do nothing: the policy is deterministic."""
