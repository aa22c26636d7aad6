"""Scripted policy of Hanabi-v0: the rule of the example SimpleAgent of the Hanabi Learning Environment."""

from __future__ import annotations

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.utils.agent_rows import rows_index
from gpu_envs.utils.summaries import Summarized, Summary
from trainers.base.agent_group import agent_rows_of

__all__ = ["HanabiPolicy"]


class HanabiPolicy(Summarized):
    """Play hinted cards and hint playable ones; has the interface of `trainers.models.policy.Policy`.

    The first own card with a hint is played. Otherwise, with an information token, the color of the first playable card
    of another player is hinted, if that color was not hinted. Otherwise the first card is discarded, or played where
    all tokens are there.
    """

    def __init__(self, core: Core, member: str) -> None:
        """Control a group or an agent of a core.

        Args:
            core: Core of Hanabi-v0, whose state the policy reads.
            member: Name of a group or an agent.

        Raises:
            ConfigError: The core is another environment.
        """
        if core.id != "Hanabi-v0":
            raise ConfigError(f"scripted policy of Hanabi: expected Hanabi-v0, got {core.id}")
        self.core: Core = core
        self.member = member
        rows = agent_rows_of(core, [member])
        self.rows: slice | Tensor = rows_index(rows, core.device)
        players = core.num_agents
        order = [[(row + offset) % players for offset in range(1, players)] for row in rows]
        self.partners: Tensor = torch.tensor(order, device=core.device)  # (n, P - 1) the other players in turn

    def _summary(self) -> Summary:
        return Summary(self.core.id, {"plays": self.member, "script": "play hinted cards", "device": self.core.device})

    @torch.no_grad()
    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, hidden_state: Tensor | None = None
    ) -> Tensor:
        """Return actions (E, n) for the current state of the core; the arguments of a `Policy` are unused."""
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

    def initial_hidden_state(self, *shape: int) -> None:
        """Return None: the policy is not recurrent."""
        return

    def seed(self, seed: int) -> None:
        """Do nothing: the policy is deterministic."""
