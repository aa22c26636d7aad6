"""What a recurrent learner remembers, from step to step and from rollout to rollout."""

from __future__ import annotations

import torch
from torch import Tensor

from trainers.bodies import Network
from trainers.files import check_tensors
from trainers.learner import State, part_of
from trainers.rollout import Rollout


class Memory:
    """Memories (E, n, H) of the actor and critic of n agents in E worlds, forgotten where an episode begins.

    The critic runs in updates only: what it remembers after a rollout is known from valuing it.
    """

    def __init__(self, shape: tuple[int, int], actor: Network, critic: Network, device: torch.device) -> None:
        """Args are (E, n), the networks and where they are."""
        self.actor = torch.zeros((*shape, actor.memory_width), device=device)
        self.critic = torch.zeros((*shape, critic.memory_width), device=device)
        self.actor_next, self.critic_next = self.actor.clone(), self.critic.clone()

    def step(self, actor: Network, obs: Tensor, rollout: Rollout) -> Tensor:
        """The actor's outputs (E, n, outputs) for normalised observations (E, n, D) of the rollout's present step."""
        begins = rollout.begins[rollout.t].view(-1, 1, 1)
        outputs, remembered = actor.step(obs, self.actor_next.masked_fill(begins, 0.0))
        assert remembered is not None
        self.actor_next.copy_(remembered)
        return outputs

    def starts(self) -> dict[str, Tensor]:
        """What was remembered before the rollout's first step, (E, n, H) each."""
        return {"actor": self.actor, "critic": self.critic}

    def next_rollout(self) -> None:
        """What is remembered now is what the next rollout starts from."""
        self.actor.copy_(self.actor_next)
        self.critic.copy_(self.critic_next)

    def state_dict(self, rollout: Rollout) -> State:
        """Between two rollouts."""
        return {f"memory.{name}": tensor for name, tensor in self._kept(rollout).items()}

    def load_state_dict(self, state: State, rollout: Rollout) -> None:
        """Puts back what `state_dict` gave; CheckpointError where it does not fit."""
        own = self._kept(rollout)
        for name, given in check_tensors("learner state memory", part_of(state, "memory."), own).items():
            own[name].copy_(given)
        self.actor_next.copy_(self.actor)
        self.critic_next.copy_(self.critic)

    def _kept(self, rollout: Rollout) -> dict[str, Tensor]:
        return {**self.starts(), "begins": rollout.begins[0]}
