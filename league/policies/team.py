"""Several policies as the one policy of a seat, each for some of the seat's agents."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import torch
from torch import Tensor
from torch.nn.functional import pad

from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.utils.agent_rows import hides_dead
from gpu_envs.utils.summaries import Summarized, Summary
from league.game import Game, Seat, SeatPart, seat_parts
from league.policies.mixture import member_path
from league.policies.random import RandomPolicy
from trainers.base.agent_group import AgentGroup, agent_rows_of, make_agent_group, make_mixed_group
from trainers.base.serialization import check_fields, read_json, write_json, wrong_format
from trainers.base.state import State, select_prefix
from trainers.models.action_heads import action_spec
from trainers.models.overrides import override_of
from trainers.models.policy import Policy, PolicyProtocol, fit_inputs

TEAM = "gpu-envs team 1"  # format of a team's JSON file
PART = "part"  # first word of the names of a part's entries in the state of a team
PLACES = "places"
"""Name of the positions of the agents of a team's members in the state of a team."""
Member = Policy | RandomPolicy  # of a team


class TeamPolicy(Summarized):
    """Let groups of a seat's agents act by their own policies: agents that differ in action space or in policy.

    Hidden states have the width of the widest member. On disk, next to `<path>.json`, every member has
    its own files.
    """

    def __init__(self, members: Sequence[Member], places: Sequence[Sequence[int]], seed: int = 0) -> None:
        """Own the members, all on one device.

        Args:
            members: Networks or random policies.
            places: Positions of the agents of each member among the n agents of the seat.
            seed: Random seed of samples.

        Raises:
            ConfigError: Not every one of n agents has exactly one member.
        """
        count = sum(map(len, places))
        flat = sorted(agent for agents in places for agent in agents)
        if not members or len(members) != len(places) or not all(places) or flat != list(range(count)):
            raise ConfigError(
                f"team: expected the agents 0, 1, ... of each of {len(members)} policies, each agent once, got {places}"
            )
        self.members: list[Member] = list(members)
        self.hides_dead: bool = hides_dead(*members)
        self.places: list[list[int]] = [list(agents) for agents in places]
        device = members[0].generator.device
        self._rows = [torch.tensor(agents, device=device) for agents in places]
        order = torch.tensor([agent for agents in places for agent in agents])
        self._order = order.argsort().to(device)  # from agents by member to agents by place
        self._widths = [
            0 if (blank := member.initial_hidden_state(1)) is None else blank.shape[-1] for member in members
        ]
        self.width: int = max(self._widths)
        self.generator: torch.Generator = torch.Generator(device).manual_seed(seed)
        for member in members:  # one stream for all, saved with a training and registered with CUDA graphs
            member.generator = self.generator

    def _summary(self) -> Summary:
        rows = [(f"agents {agents}", repr(member)) for agents, member in zip(self.places, self.members, strict=True)]
        facts = {"agents": len(self._order), "device": self.generator.device}
        return Summary("", facts, ("", "policy"), rows)

    @torch.no_grad()
    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, hidden_state: Tensor | None = None
    ) -> Tensor:
        """Return the actions of all agents for observations (..., n, D), see `Policy.act`.

        Actions of agents with fewer components than others are padded with zeros.

        Raises:
            ConfigError: A member is recurrent and `hidden_state` is missing.
        """
        actions = list[Tensor]()
        for member, rows, width in zip(self.members, self._rows, self._widths, strict=True):
            own_mask = None if mask is None else mask.index_select(-2, rows)
            member_state = None
            if width and hidden_state is not None:
                member_state = hidden_state.index_select(-2, rows)[..., :width].contiguous()
            actions.append(member.act(*fit_inputs(member, obs.index_select(-2, rows), own_mask), greedy, member_state))
            if member_state is not None and hidden_state is not None:
                hidden_state[..., :width].index_copy_(hidden_state.dim() - 2, rows, member_state)
        axis = obs.dim() - 2
        return torch.cat(_padded(actions, axis), axis).index_select(axis, self._order)

    def initial_hidden_state(self, *shape: int) -> Tensor | None:
        """Return the initial hidden state, zeros `(*shape, H)`; None if no member is recurrent."""
        return torch.zeros((*shape, self.width), device=self.generator.device) if self.width else None

    def seed(self, seed: int) -> None:
        """Restart the random stream of samples."""
        self.generator.manual_seed(seed)

    def state_dict(self) -> State:
        """Return the weights and specifications of a team of networks, see `policy_from_state`."""
        states = [member.state_dict() for member in self.members if isinstance(member, Policy)]
        return {**join_states(states), PLACES: json.dumps(self.places)}

    def save(self, path: Path) -> None:
        """Write `<path>.json` and the files `<path>.PLACE.*` of each member."""
        for index, member in enumerate(self.members):
            member.save(member_path(path, index))
        spec = {"format": TEAM, "places": self.places}
        if any(isinstance(member, RandomPolicy) for member in self.members):
            spec["kinds"] = ["random" if isinstance(member, RandomPolicy) else "policy" for member in self.members]
        write_json(path.with_suffix(".json"), spec)

    @classmethod
    def load(cls, path: Path, device: torch.device | str = "cpu") -> TeamPolicy:
        """Load a saved team; raise CheckpointError if a file is invalid."""
        file = path.with_suffix(".json")
        spec = read_json(file)
        if (actual := spec.get("format")) != TEAM:
            raise wrong_format(file, TEAM, actual)
        spec.setdefault("kinds", ["policy"] * len(spec["places"]) if isinstance(spec.get("places"), list) else [])
        check_fields(str(file), spec, {"format": str, "places": list[list[int]], "kinds": list[str]})
        loaders = {"policy": Policy.load, "random": RandomPolicy.load}
        if len(spec["kinds"]) != len(spec["places"]) or not set(spec["kinds"]) <= loaders.keys():
            raise CheckpointError(
                f"{file}: kinds: expected 'policy' or 'random' for each member, got {spec['kinds']!r:.80}"
            )
        members = [loaders[kind](member_path(path, index), device) for index, kind in enumerate(spec["kinds"])]
        try:
            return cls(members, spec["places"])
        except ConfigError as error:
            raise CheckpointError(f"{file}: {error}") from error


def join_states(states: Sequence[Mapping[str, Any]]) -> State:
    """Return the state of a team from the states of its parts."""
    return {f"{PART}.{number}.{name}": value for number, state in enumerate(states) for name, value in state.items()}


def part_state(state: State, number: int) -> State:
    """Return the state of one part from the state of the team."""
    return select_prefix(state, f"{PART}.{number}.")


def policy_from_state(
    state: Mapping[str, Any], device: torch.device | str = "cpu", prefixes: tuple[str, ...] = ("",)
) -> Policy | TeamPolicy:
    """Return the network of a `Policy.state_dict`, or the team of a `TeamPolicy.state_dict`.

    Args:
        state: State of the policy.
        device: Device of the policy.
        prefixes: Prefixes of the names of a network's state; other entries are ignored.
    """
    if PLACES not in state:
        return Policy.from_state({key: value for key, value in state.items() if key.startswith(prefixes)}, device)
    places = json.loads(state[PLACES])
    parts = [part_state({**state}, number) for number in range(len(places))]
    states = [{key: value for key, value in part.items() if key.startswith(prefixes)} for part in parts]
    return TeamPolicy([Policy.from_state(entries, device) for entries in states], places)


def random_policy(
    game: Game, role: str, device: torch.device | str = "cpu", seed: int = 0
) -> RandomPolicy | TeamPolicy:
    """Return the policy of uniformly random legal actions for the seats of a role.

    Raises:
        ConfigError: The role does not exist.
    """
    if role not in game.roles or len(parts := game.parts[game.seats_of(role)[0]]) == 1:
        return RandomPolicy.of(game, role, device, seed)
    core = game.core(1)
    members = [RandomPolicy(action_spec(make_agent_group(core, part.members).space), device) for part in parts]
    return TeamPolicy(members, [part.places for part in parts], seed)


def part_policy(policy: PolicyProtocol, parts: Sequence[SeatPart], number: int) -> PolicyProtocol | None:
    """Return the policy of one part of a seat; None if the policy of the seat is not one policy per part."""
    if len(parts) == 1:
        return policy
    if isinstance(policy, TeamPolicy) and policy.places == [list(part.places) for part in parts]:
        return None if override_of(policy, TeamPolicy, ("act",)) else policy.members[number]
    return None


def check_seat_policies(policies: Mapping[int, PolicyProtocol], core: Core, seat: Seat) -> None:
    """Check that policies fit a seat.

    Args:
        policies: Policies by index.
        core: Worlds with the seat.
        seat: The seat.

    Raises:
        ConfigError: A network has other observations, actions or agents than the seat, or a team other parts.
    """
    agents, rows, parts = make_mixed_group(core, seat.members), agent_rows_of(core, seat.members), None
    for index, policy in policies.items():
        label = f"{core.id}: seat {seat.name}: policy {index}"
        if isinstance(policy, Policy | RandomPolicy | TeamPolicy):
            parts = seat_parts(core, seat.members) if parts is None else parts
            if len(parts) > 1:
                _check_team(label, policy, core, rows, parts)
            elif isinstance(policy, Policy):
                _check_network(label, policy, agents, len(rows))


def _check_network(label: str, policy: Policy, agents: AgentGroup, count: int) -> None:
    if mismatch := policy.mismatch(agents.obs_width, agents.space, count):
        raise ConfigError(f"{label}: {mismatch}")


def _check_team(label: str, policy: PolicyProtocol, core: Core, rows: Sequence[int], parts: Sequence[SeatPart]) -> None:
    if not isinstance(policy, TeamPolicy):
        kind = type(policy).__name__
        raise ConfigError(f"{label}: expected a team, because its agents differ in action space, got a {kind}")
    for positions, member in zip(policy.places, policy.members, strict=True):
        if not any(set(positions) <= set(part.places) for part in parts):
            raise ConfigError(
                f"{label}: expected members for agents of one action space, got one for the agents {positions}"
            )
        if isinstance(member, Policy):
            names = [core.possible_agents[rows[i]] for i in positions]
            _check_network(label, member, make_agent_group(core, names), len(names))


def has_networks(policy: PolicyProtocol) -> TypeGuard[Policy | TeamPolicy]:
    """Return whether a policy is a network, or a team of networks, from whose weights learners can start."""
    if isinstance(policy, TeamPolicy):
        return all(isinstance(member, Policy) for member in policy.members)
    return isinstance(policy, Policy)


def _padded(actions: Sequence[Tensor], axis: int) -> list[Tensor]:
    """Return actions (..., n) or (..., n, K) with the agents on an axis, with the same number of components."""
    if all(action.shape[axis + 1 :] == actions[0].shape[axis + 1 :] for action in actions):
        return list(actions)
    wide = [action if action.dim() > axis + 1 else action.unsqueeze(-1) for action in actions]
    width = max(action.shape[-1] for action in wide)
    return [pad(action, (0, width - action.shape[-1])) for action in wide]
