"""Network bodies by settings: MLP, GRU and CNN, each with an output layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gpu_envs.errors import ConfigError
from trainers.nets import ACTIVATIONS, mlp
from trainers.settings import setting


@dataclass(frozen=True)
class BodyConfig:
    """Settings of networks, part of every algorithm's."""

    body: str = setting("mlp", ("mlp", "gru", "cnn"))
    """"mlp"; "gru": an MLP and a recurrent layer that remembers within an episode; "cnn": convolutions, then an MLP."""
    hidden: tuple[int, ...] = setting((64, 64), "in [1, 2**16]")
    """Widths of the hidden layers; a GRU's is the last."""
    activation: str = setting("tanh", tuple(ACTIVATIONS))
    """"tanh" or "relu"."""
    image: tuple[int, ...] = setting((), ">= 1", needs={"body": "cnn"})
    """For a CNN: channels, height and width of the picture that an observation begins with; what follows it goes to the
    MLP."""
    filters: tuple[int, ...] = setting((16, 32), ">= 1", needs={"body": "cnn"})
    """For a CNN: filters of its 3 x 3 convolutions, which keep height and width."""

    def spec(self, obs_width: int) -> dict[str, Any]:
        """What `Network` is built from, in JSON's terms, with D of its input."""
        return {
            "obs_width": obs_width,
            "body": self.body,
            "hidden": list(self.hidden),
            "activation": self.activation,
            "image": list(self.image),
            "filters": list(self.filters),
        }


class Network(nn.Module):
    """Maps inputs (..., D) to outputs (..., outputs): convolutions, if any, MLP, GRU, if any, and a linear layer.

    What a GRU remembers is a tensor (..., H) that the caller keeps; H is `memory_width`, 0 for a network that remembers
    nothing.
    """

    def __init__(
        self, spec: Mapping[str, Any], outputs: int, out_gain: float, generator: torch.Generator | None = None
    ) -> None:
        """Draws orthogonal weights on the CPU, see `trainers.nets.mlp`.

        Args:
            spec: See `BodyConfig.spec`.
            outputs: Width of the output.
            out_gain: Gain of the last layer: 0.01 for a policy (starts near uniform), 1 for a critic.
            generator: CPU generator that draws the weights.

        Raises:
            ConfigError: The picture of a CNN does not fit into D, or there is no hidden layer for a GRU.
        """
        super().__init__()
        hidden, activation, width = list(spec["hidden"]), spec["activation"], int(spec["obs_width"])
        self.picture: list[int] = []
        self.convolutions: nn.Module | None = None
        self.cell: nn.GRUCell | None = None
        self.memory_width = 0
        if spec["body"] == "cnn":
            width = self._see(list(spec["image"]), list(spec["filters"]), activation, width, generator)
        if spec["body"] == "gru":
            if not hidden:
                raise ConfigError("learner.hidden = (): expected at least one width, that of the GRU")
            self.memory_width = hidden[-1]
            self.body = mlp([width, *hidden], activation, math.sqrt(2.0), generator)
            self.body.append(ACTIVATIONS[activation]())
            self.cell = nn.GRUCell(hidden[-1], hidden[-1])
            for weight, bias in (
                (self.cell.weight_ih, self.cell.bias_ih),
                (self.cell.weight_hh, self.cell.bias_hh),
            ):
                nn.init.orthogonal_(weight, generator=generator)
                bias.data.zero_()
            self.out = mlp([hidden[-1], outputs], activation, out_gain, generator)
        else:
            self.body = mlp([width, *hidden, outputs], activation, out_gain, generator)
            self.out = nn.Identity()

    def _see(
        self, picture: list[int], filters: list[int], activation: str, width: int, generator: torch.Generator | None
    ) -> int:
        """Builds the convolutions; returns the width of what the MLP gets."""
        if len(picture) != 3 or math.prod(picture) > width:
            raise ConfigError(
                f"learner.image = {tuple(picture)}: expected channels, height and width of at most the {width} numbers "
                "of an observation"
            )
        layers: list[nn.Module] = []
        channels = picture[0]
        for count in filters:
            layer = nn.Conv2d(channels, count, 3, padding=1)
            nn.init.orthogonal_(layer.weight, math.sqrt(2.0), generator=generator)
            nn.init.zeros_(layer.get_parameter("bias"))
            layers += [layer, ACTIVATIONS[activation]()]
            channels = count
        self.picture, self.convolutions = picture, nn.Sequential(*layers, nn.Flatten())
        return channels * picture[1] * picture[2] + width - math.prod(picture)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., outputs), for networks without memory."""
        assert self.cell is None, "a recurrent network needs step() or unroll()"
        return self.body(self._features(x))

    def step(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """One step in time: (..., D) and the memory (..., H) before it -> outputs and the memory after it."""
        if self.cell is None:
            return self(x), memory
        assert memory is not None
        rows = self.body(x).flatten(0, -2)
        new = self.cell(rows, memory.reshape(-1, self.memory_width)).view_as(memory)
        return self.out(new), new

    def unroll(self, x: Tensor, memory: Tensor | None, begins: Tensor) -> Tensor:
        """T steps in time, with gradients through all of them.

        Args:
            x: (T, N, D).
            memory: (N, H) before the first step; not read without a GRU.
            begins: (T, N) bool, the memory is forgotten before this step.

        Returns:
            (T, N, outputs).
        """
        if self.cell is None:
            return self(x)
        assert memory is not None
        return self.out(self.remember(x, memory, begins))

    def remember(self, x: Tensor, memory: Tensor, begins: Tensor) -> Tensor:
        """The memory after every step (T, N, H), of which `out` makes the outputs; arguments as `unroll`."""
        assert self.cell is not None, "only a recurrent network remembers"
        features, kept = self.body(x), (~begins).unsqueeze(-1).to(x.dtype)
        remembered: list[Tensor] = []
        for t in range(x.shape[0]):
            remembered.append(self.cell(features[t], (remembered[-1] if t else memory) * kept[t]))
        return torch.stack(remembered)

    def _features(self, x: Tensor) -> Tensor:
        if self.convolutions is None:
            return x
        size = math.prod(self.picture)
        seen = self.convolutions(x[..., :size].reshape(-1, *self.picture))
        return torch.cat([seen.view(*x.shape[:-1], seen.shape[-1]), x[..., size:]], -1)


def with_ids(x: Tensor, agents: int) -> Tensor:
    """Inputs (..., n, D) with every agent's place among the n as one-hot behind them, (..., n, D + n).

    Args:
        x: Inputs.
        agents: n; 0 leaves them as they are.

    Raises:
        ConfigError: There are not n agents.
    """
    if not agents:
        return x
    if x.dim() < 2 or x.shape[-2] != agents:
        raise ConfigError(
            f"this policy tells its {agents} agents apart: expected observations (..., {agents}, D), got "
            f"{tuple(x.shape)}"
        )
    ids = torch.eye(agents, dtype=x.dtype, device=x.device)
    return torch.cat([x, ids.expand(*x.shape[:-1], agents)], -1)


def actor_width(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A policy's spec as its network needs it: the width of the input counts the one-hot places, see `with_ids`."""
    return {**spec, "obs_width": spec["obs_width"] + spec.get("ids", 0)}
