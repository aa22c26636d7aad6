"""Several policies as the one policy of a seat, each for some of the seat's agents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.utils.summaries import Summarized, Summary
from league.policies.mixture import member_path
from trainers.base.serialization import check_fields, read_json, write_json, wrong_format
from trainers.models.policy import Policy

__all__ = ["TEAM", "TeamPolicy"]

TEAM = "gpu-envs team 1"  # format of a team's JSON file


class TeamPolicy(Summarized):
    """Let each agent of a seat act by its own policy, as after a training with a policy per agent.

    Hidden states have the width of the widest member. On disk every member has its own files besides `<path>.json`.
    """

    def __init__(self, members: Sequence[Policy], places: Sequence[Sequence[int]], seed: int = 0) -> None:
        """Own the members, all on one device.

        Args:
            members: Policies.
            places: Positions of the agents of each member among the n agents of the seat.
            seed: Random seed of samples.

        Raises:
            ConfigError: Not every one of n agents has exactly one member.
        """
        count = sum(map(len, places))
        taken = sorted(place for own in places for place in own)
        if not members or len(members) != len(places) or not all(places) or taken != list(range(count)):
            raise ConfigError(
                f"team: expected the agents 0, 1, ... of each of {len(members)} policies, each agent once, got {places}"
            )
        self.members: list[Policy] = list(members)
        self.places: list[list[int]] = [list(own) for own in places]
        device = members[0].normalizer.mean.device
        self._rows = [torch.tensor(own, device=device) for own in places]
        order = torch.tensor([place for own in places for place in own])
        self._order = order.argsort().to(device)  # from agents by member to agents by place
        self.width: int = max(member.actor.hidden_width for member in members)
        self.generator: torch.Generator = torch.Generator(device).manual_seed(seed)
        for member in members:  # one stream for all, saved with a training and registered with CUDA graphs
            member.generator = self.generator

    def _summary(self) -> Summary:
        rows = [(f"agents {own}", repr(member)) for own, member in zip(self.places, self.members, strict=True)]
        facts = {"agents": len(self._order), "device": self.generator.device}
        return Summary("", facts, ("", "policy"), rows)

    @torch.no_grad()
    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, hidden_state: Tensor | None = None
    ) -> Tensor:
        """Return the actions of all agents for observations (..., n, D), see `Policy.act`.

        Raises:
            ConfigError: A member is recurrent and `hidden_state` is missing.
        """
        found = []
        for member, rows in zip(self.members, self._rows, strict=True):
            own_mask = None if mask is None else mask.index_select(-2, rows)
            own, width = None, member.actor.hidden_width
            if width and hidden_state is not None:
                own = hidden_state.index_select(-2, rows)[..., :width].contiguous()
            found.append(member.act(obs.index_select(-2, rows), own_mask, greedy, own))
            if own is not None and hidden_state is not None:
                hidden_state[..., :width].index_copy_(hidden_state.dim() - 2, rows, own)
        axis = obs.dim() - 2
        return torch.cat(found, axis).index_select(axis, self._order)

    def initial_hidden_state(self, *shape: int) -> Tensor | None:
        """Return the initial hidden state, zeros `(*shape, H)`; None if no member is recurrent."""
        return torch.zeros((*shape, self.width), device=self.generator.device) if self.width else None

    def seed(self, seed: int) -> None:
        """Restart the random stream of samples."""
        self.generator.manual_seed(seed)

    def save(self, path: Path) -> None:
        """Write `<path>.json` and the files `<path>.PLACE.*` of each member."""
        for place, member in enumerate(self.members):
            member.save(member_path(path, place))
        write_json(path.with_suffix(".json"), {"format": TEAM, "places": self.places})

    @classmethod
    def load(cls, path: Path, device: torch.device | str = "cpu") -> TeamPolicy:
        """Load a saved team; raise CheckpointError if a file is invalid."""
        file = path.with_suffix(".json")
        spec = read_json(file)
        if (got := spec.get("format")) != TEAM:
            raise wrong_format(file, TEAM, got)
        check_fields(str(file), spec, {"format": str, "places": list[list[int]]})
        members = [Policy.load(member_path(path, place), device) for place in range(len(spec["places"]))]
        try:
            return cls(members, spec["places"])
        except ConfigError as error:
            raise CheckpointError(f"{file}: {error}") from error
