"""The policy that samples legal actions uniformly."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from gpu_envs.utils.summaries import Summarized, Summary
from league.game import Game
from trainers.base.agent_group import make_agent_group
from trainers.base.serialization import check_fields, read_json, write_json, wrong_format
from trainers.models.action_heads import BoxHead, Head, action_spec, action_text, check_action_spec, make_head


class RandomPolicy(Summarized):
    """Take uniformly random legal actions, in unbounded boxes from [-1, 1]. It is the first policy of a population."""

    def __init__(self, action: dict[str, Any], device: torch.device | str = "cpu", seed: int = 0) -> None:
        """Create the policy of an action space `action`, see `action_heads.action_spec`."""
        self.action = action
        self.head: Head = make_head(action).requires_grad_(False).to(device)
        self.generator: torch.Generator = torch.Generator(device).manual_seed(seed)

    def _summary(self) -> Summary:
        return Summary("", {"action": action_text(self.action), "device": self.generator.device})

    @classmethod
    def of(cls, game: Game, role: str, device: torch.device | str = "cpu", seed: int = 0) -> RandomPolicy:
        """Return the policy for the seats of a role; raise ConfigError if the role does not exist."""
        if role not in game.roles:
            raise ConfigError(f"{game.env_id}: expected a role among {', '.join(game.roles)}, got {role!r}")
        members = game.seats[game.seats_of(role)[0]].members
        return cls(action_spec(make_agent_group(game.core(1), members).space), device, seed)

    @torch.no_grad()
    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, hidden_state: Tensor | None = None
    ) -> Tensor:
        """Return random actions (...) or (..., K) for observations (..., D) and masks (..., C), also if `greedy`."""
        blank = torch.zeros((*obs.shape[:-1], self.head.num_params), device=obs.device)
        if isinstance(self.head, BoxHead):
            return self.head.decode(self.head.random(blank, self.generator))
        return self.head.sample(blank, self.generator, mask)[0]

    def initial_hidden_state(self, *shape: int) -> None:
        """Return None: it has no hidden state."""

    def seed(self, seed: int) -> None:
        """Seed the random stream of actions."""
        self.generator.manual_seed(seed)

    def save(self, path: Path) -> None:
        """Write `<path>.json`."""
        write_json(path.with_suffix(".json"), {"format": FORMAT, "action": self.action})

    @classmethod
    def load(cls, path: Path, device: torch.device | str = "cpu") -> RandomPolicy:
        """Load a saved policy; raise CheckpointError if the file is invalid."""
        file = path.with_suffix(".json")
        spec = read_json(file, finite=False)  # a box may have no bounds
        if (actual := spec.get("format")) != FORMAT:
            raise wrong_format(file, FORMAT, actual)
        check_fields(str(file), spec, {"format": str, "action": dict[str, Any]})
        check_action_spec(f"{file}: action", spec["action"])
        return cls(spec["action"], device)


@runtime_checkable
class _Samples(Protocol):
    generator: torch.Generator


FORMAT = "gpu-envs random policy 1"  # of a random policy's JSON file
