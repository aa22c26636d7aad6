"""Scripted policies as baselines: hunters chase the nearest prey, prey flees from the nearest hunter.

The policies look one move ahead. A hunter takes the action that leads closest to its nearest prey; prey takes the
action that leads farthest from its nearest hunter. Positions are read from the state of the environments, because
observations can be incomplete (TagContinuous does not observe an agent's own heading).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_envs.definition import registry
from gpu_envs.errors import ConfigError, shown
from gpu_envs.runtime.core import Core
from gpu_envs.utils.agent_rows import rows_index
from gpu_envs.utils.summaries import Summarized, Summary
from trainers.base.agent_group import agent_rows_of, make_agent_group
from trainers.evaluation.economy_policies import EconomyPolicy
from trainers.evaluation.foraging_policies import ForagingPolicy
from trainers.evaluation.formation_policies import PUSHES, FormationPolicy
from trainers.evaluation.hanabi_policies import HanabiPolicy
from trainers.evaluation.treasure_policies import TreasurePolicy
from trainers.evaluation.warehouse_policies import WarehousePolicy
from trainers.models.policy import PolicyProtocol
from warp_kernels.mpe import particles

__all__ = [
    "MOVES",
    "PUSHES",
    "SCRIPTED",
    "SCRIPTED_POLICIES",
    "SCRIPTS",
    "ActionOutcomes",
    "DeafListener",
    "Script",
    "ScriptedPolicy",
    "has_script",
    "scripted_policies_of",
    "scripted_policy",
    "simple_tag",
    "tag_continuous",
    "tag_gridworld",
]

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


class ScriptedPolicy(Summarized):
    """Chase or flee in the environments of one core; has the interface of `trainers.models.policy.Policy`."""

    def __init__(self, core: Core, member: str) -> None:
        """Control a group or an agent of a core.

        Raises:
            ConfigError: There is no script for the environment.
        """
        if core.id not in SCRIPTS:
            raise ConfigError(f"{core.id}: ScriptedPolicy plays {', '.join(SCRIPTS)} only; use scripted_policy")
        script, rows = SCRIPTS[core.id], agent_rows_of(core, [member])
        self.member = member
        self.core: Core = core
        self.look: Callable[[Core, slice | Tensor, Tensor], ActionOutcomes] = script.look
        self.rows: slice | Tensor = rows_index(rows, core.device)
        self.moves: Tensor = torch.tensor(script.moves, device=core.device)  # a copy per step would synchronize
        self.hunts: bool = rows[0] in core.groups[script.hunters]
        other = next(group for group in core.groups if (group == script.hunters) != self.hunts)
        self.opponents: slice | Tensor = rows_index(core.groups[other], core.device)
        space = make_agent_group(core, [member]).space
        self.sizes: list[int] = [int(n) for n in getattr(space, "nvec", ())]
        self.throttles: bool = core.action_buffer.dtype == torch.float32
        self.seed(0)

    def _summary(self) -> Summary:
        script = "chase the nearest" if self.hunts else "flee from the nearest"
        return Summary(self.core.id, {"plays": self.member, "script": script, "device": self.core.device})

    @torch.no_grad()
    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, hidden_state: Tensor | None = None
    ) -> Tensor:
        """Return actions (E, n[, K]) for the current state of the core; the arguments of a `Policy` are unused."""
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

    def initial_hidden_state(self, *shape: int) -> None:
        """Return None: the policy is not recurrent."""
        return

    def seed(self, seed: int) -> None:
        """Do nothing: the policy is deterministic."""


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
            "own has those of gpu_envs.register(..., scripted=)"
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
