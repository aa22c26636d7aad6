"""Base class of scripted policies, which read the state of the worlds that they play in."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.utils.agent_rows import rows_index
from gpu_envs.utils.summaries import Summarized, Summary
from trainers.base.agent_group import agent_rows_of


class StatePolicy(Summarized):
    """Play a group or an agent of one core by its state; has the interface of `trainers.models.policy.Policy`."""

    env_ids: ClassVar[tuple[str, ...]]
    """Environments that the policy plays."""
    script: str
    """What the policy does, for its summary."""

    def __init__(self, core: Core, member: str) -> None:
        """Control a group or an agent of a core.

        Raises:
            ConfigError: The policy does not play this environment.
        """
        if core.id not in self.env_ids:
            raise ConfigError(
                f"{type(self).__name__}: expected a core of {' or '.join(self.env_ids)}, got {core.id}; "
                "use scripted_policy(core, member)"
            )
        self.core: Core = core
        self.member = member
        self.agent_rows: list[int] = agent_rows_of(core, [member])
        self.rows: slice | Tensor = rows_index(self.agent_rows, core.device)
        self._generator = torch.Generator(core.device)
        self.seed(0)

    def _summary(self) -> Summary:
        return Summary(self.core.id, {"plays": self.member, "script": self.script, "device": self.core.device})

    @torch.no_grad()
    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, hidden_state: Tensor | None = None
    ) -> Tensor:
        """Return actions (E, n[, K]) for the current state of the core; of the arguments only the mask is used."""
        return self._act(mask)

    @abstractmethod
    def _act(self, mask: Tensor | None) -> Tensor:
        """Return actions (E, n[, K]) for the current state of the core and the mask of legal choices."""

    def initial_hidden_state(self, *shape: int) -> None:
        """Return None: the policy is not recurrent."""
        return

    def seed(self, seed: int) -> None:
        """Restart the random stream, if the policy has one."""
        self._generator.manual_seed(seed)
