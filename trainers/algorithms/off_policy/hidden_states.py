"""Hidden states of learners with a replay: stored with every step, and recomputed over training windows with burn-in.

Source: Kapturowski et al. 2019, "Recurrent Experience Replay in Distributed Reinforcement Learning" (R2D2), section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_envs.utils.settings import setting
from trainers.buffers.replay_buffer import Fields, ReplayBuffer
from trainers.buffers.rollout_buffer import RolloutBuffer
from trainers.models.networks import RECURRENT, Network, NetworkConfig


@dataclass(frozen=True)
class WindowConfig(NetworkConfig):
    """Settings of the training windows of recurrent networks."""

    window: int = setting(16, ge=1, requires={"network": RECURRENT})
    """With a hidden state only: consecutive steps per training window; `batch_size` is the number of windows."""
    burn_in: int = setting(4, ge=0, requires={"network": RECURRENT})
    """With a hidden state only: steps before each window that only recompute it, because older weights stored it.
    Raise it if windows are shorter than the time over which policies must remember."""


class HiddenStates:
    """Hidden states (E, n, H) of a policy while it acts, and of its learner's networks in training windows.

    They are reset at episode starts. Where agents take turns, they advance in the steps of `RolloutBuffer.advances`.
    H is 0 for networks without one.
    """

    def __init__(self, config: WindowConfig, actor: Network, rollout: RolloutBuffer, turn_based: bool = False) -> None:
        """Allocate zeros for the agents of a rollout."""
        device, shape = rollout.device, (*rollout.valid.shape[1:], actor.hidden_width)
        self.width: int = actor.hidden_width
        self.rollout: RolloutBuffer = rollout
        self.burn_in: int = config.burn_in if self.width else 0
        self.window: int = self.burn_in + config.window if self.width else 1
        """Steps per window, including the burn-in; 1 without a hidden state."""
        self.state: Tensor = torch.zeros(shape, device=device)
        self.remembered: Tensor = torch.zeros((rollout.length, *shape), device=device)
        """(T, E, n, H), before each step of the rollout."""
        if self.width and turn_based:
            rollout.track_turns()

    def step(self, actor: Network, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the actor's outputs (E, n, outputs) for the present step's inputs (E, n, D) and masks."""
        if not self.width:
            return actor(x) if mask is None else actor(x, mask)
        t, r, state = self.rollout.t, self.rollout, self.state
        state.masked_fill_(r.episode_starts[t][:, None, None], 0.0)
        self.remembered[t].copy_(state)
        outputs, states = actor.step(x, state, mask)
        assert states is not None
        state.copy_(states if r.advances is None else torch.where(r.advances[t].unsqueeze(-1), states, state))
        return outputs

    def fields(self) -> Fields:
        """Return what the replay stores of hidden states; {}: there are none."""
        if not self.width:
            return {}
        row = self.state.shape[1:]
        fields: dict[str, tuple[tuple[int, ...], torch.dtype]] = {"hidden_state": (tuple(row), torch.float32)}
        fields["episode_starts"] = ((), torch.bool)
        return fields if self.rollout.advances is None else {**fields, "advances": (tuple(row[:1]), torch.bool)}

    def steps(self) -> dict[str, Tensor]:
        """Return the fields of the rollout's steps, (T, E, ...) by name, with zeros for invalid agents."""
        if not self.width:
            return {}
        r = self.rollout
        steps = {"hidden_state": self.remembered.masked_fill(~r.valid.unsqueeze(-1), 0.0)}
        steps["episode_starts"] = r.episode_starts[:-1]
        return steps if r.advances is None else {**steps, "advances": r.advances[:-1]}

    def sample(self, replay: ReplayBuffer, time: Tensor, env: Tensor, extra_steps: int = 0) -> dict[str, Tensor]:
        """Return windows from places on, (L, B, ...) by name, of which no step of the burn-in is valid.

        Args:
            replay: The replay.
            time: (B,) first steps.
            env: (B,) worlds.
            extra_steps: Steps in addition to `window`.

        Returns:
            Fields of the replay, and "hidden_state" (B, n, H) before the first step.
        """
        batch = replay.windows(time, env, self.window + extra_steps, replay.buffers.keys() - {"hidden_state"})
        batch["valid"][: self.burn_in].fill_(False)
        return {**batch, "hidden_state": replay.buffers["hidden_state"][time, env]} if self.width else batch

    def unroll(
        self,
        net: Network,
        x: Tensor,
        batch: Mapping[str, Tensor],
        start: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Compute a network in windows, without gradients through the burn-in.

        Args:
            net: A network of the learner, of the same kind as the policy's.
            x: (L, B, n, D) inputs; (..., D) without a hidden state.
            batch: Result of `sample`.
            start: (B, n, H), before the first step; None: zeros.
            mask: (L, B, n, choices).

        Returns:
            (L, B, n, outputs), and the hidden states after every step (L, B, n, H), None without one.
        """
        if not self.width:
            return net(x) if mask is None else net(x, mask), None
        begins = batch["episode_starts"].unsqueeze(-1).expand(x.shape[:3]).flatten(1, 2)
        advances, mask = (None if part is None else part.flatten(1, 2) for part in (batch.get("advances"), mask))
        rows = x.flatten(1, 2)
        hidden = x.new_zeros((rows.shape[1], net.hidden_width)) if start is None else start.flatten(0, 1)
        parts: list[tuple[Tensor, Tensor]] = []
        for first, last in ((0, self.burn_in), (self.burn_in, len(x))):
            if first < last:
                flags = (None if part is None else part[first:last] for part in (advances, mask))
                with torch.set_grad_enabled(torch.is_grad_enabled() and last == len(x)):
                    parts.append(net.unroll(rows[first:last], hidden, begins[first:last], *flags))
                hidden = parts[-1][1][-1]
        outputs, states = (torch.cat(values).unflatten(1, x.shape[1:3]) for values in zip(*parts, strict=True))
        return outputs, states

    @torch.no_grad()
    def states_after(
        self,
        net: Network,
        x: Tensor,
        batch: Mapping[str, Tensor],
        start: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor | None:
        """Return the hidden states of `unroll`, (L, B, n, H) without gradients; None without one."""
        return self.unroll(net, x, batch, start, mask)[1] if self.width else None

    def states_before(self, states: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        """Return hidden states before each step from those after it (L, B, n, H), in windows that start with zeros."""
        shifted = torch.cat([torch.zeros_like(states[:1]), states[:-1]])
        return shifted.masked_fill(batch["episode_starts"][:, :, None, None], 0.0)

    def carried(self) -> dict[str, Tensor]:
        """Return the tensors (E, ...) carried from one rollout to the next."""
        r = self.rollout
        tensors = {"hidden_state": self.state, "episode_starts": r.episode_starts[0]}
        return tensors if r.advances is None else {**tensors, "advances": r.advances[0]}
