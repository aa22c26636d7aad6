"""Hidden states of a recurrent learner, across steps and rollouts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainers.base.serialization import check_tensors
from trainers.base.state import State, select_prefix
from trainers.buffers.rollout_buffer import RolloutBuffer
from trainers.models.networks import Network


class RecurrentState:
    """Hidden states (E, n, H) of actor and critic for n agents in E worlds, reset at episode starts.

    Where agents take turns, they advance in the steps of `RolloutBuffer.advances`.
    The critic runs only in updates, which compute its hidden states after a rollout.
    """

    def __init__(self, shape: Sequence[int], actor: Network, critic: Network, device: torch.device) -> None:
        """Allocate zeros for `shape` (E, n)."""
        self.actor: Tensor = torch.zeros((*shape, actor.hidden_width), device=device)
        self.critic: Tensor = torch.zeros((*shape, critic.hidden_width), device=device)
        self.actor_next: Tensor = self.actor.clone()
        self.critic_next: Tensor = self.critic.clone()

    def step(self, actor: Network, obs: Tensor, mask: Tensor | None, rollout: RolloutBuffer) -> Tensor:
        """Return the actor's outputs (E, n, outputs) for the present step's inputs (E, n, D) and masks."""
        previous = self.actor_next.masked_fill(rollout.episode_starts[rollout.t].view(-1, 1, 1), 0.0)
        outputs, remembered = actor.step(obs, previous, mask)
        assert remembered is not None
        if rollout.advances is not None:
            remembered = torch.where(rollout.advances[rollout.t].unsqueeze(-1), remembered, previous)
        self.actor_next.copy_(remembered)
        return outputs

    def starts(self) -> dict[str, Tensor]:
        """Return the hidden states before the rollout's first step, (E, n, H) each."""
        return {"actor": self.actor, "critic": self.critic}

    def next_rollout(self) -> None:
        """Make the present hidden states the start of the next rollout."""
        self.actor.copy_(self.actor_next)
        self.critic.copy_(self.critic_next)

    def state_dict(self, rollout: RolloutBuffer) -> State:
        """Return the state between two rollouts."""
        return {f"hidden_state.{name}": tensor for name, tensor in self._tensors(rollout).items()}

    def load_state_dict(self, state: State, rollout: RolloutBuffer) -> None:
        """Restore the result of `state_dict`; raise CheckpointError if it does not fit."""
        buffers = self._tensors(rollout)
        entries = select_prefix(state, "hidden_state.")
        if rollout.advances is not None:  # checkpoints of earlier versions have none: all agents took in all steps
            entries.setdefault("advances", torch.ones_like(rollout.advances[0]))
        for name, entry in check_tensors("learner state hidden_state", entries, buffers).items():
            buffers[name].copy_(entry)
        self.actor_next.copy_(self.actor)
        self.critic_next.copy_(self.critic)

    def _tensors(self, rollout: RolloutBuffer) -> dict[str, Tensor]:
        tensors = {**self.starts(), "episode_starts": rollout.episode_starts[0]}
        return tensors if rollout.advances is None else {**tensors, "advances": rollout.advances[0]}
