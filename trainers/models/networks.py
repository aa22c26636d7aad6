"""Networks configured by settings: MLP, GRU and CNN, each with an output layer."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import setting
from trainers.base.learner_spec import ObservationLayout
from trainers.base.torch_threads import torch_threads

__all__ = ["ACTIVATIONS", "Network", "NetworkConfig", "actor_width", "mlp", "polyak_update", "target_copy", "with_ids"]

M = TypeVar("M", bound=nn.Module)

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}  # name of the setting -> layer


@dataclass(frozen=True)
class NetworkConfig:
    """Network settings, shared by all algorithms."""

    network: str = setting("mlp", choices=("mlp", "gru", "cnn"))
    """Kind of network: "mlp", "gru" (an MLP and a recurrent layer) or "cnn" (convolutions and an MLP).
    Use "gru" for tasks that need memory within an episode, and "cnn" for image observations."""
    hidden_sizes: tuple[int, ...] = setting((64, 64), ge=1, le=2**16)
    """Widths of the hidden layers; with a GRU the last one is its hidden state's."""
    activation: str = setting("tanh", choices=tuple(ACTIVATIONS))
    """Activation function of the hidden layers: "tanh" or "relu"."""
    image: tuple[int, ...] = setting((), ge=1, requires={"network": "cnn"})
    """CNN only: channels, height and width of the image at the start of every observation. The other entries go
    directly to the MLP. Left out, it is every image of the environment's observation space."""
    channels_last: bool = setting(False, requires={"network": "cnn"})
    """CNN only: observations contain the image by height, width and channels, instead of channels, height and width.
    An image space of the environment has its own order."""
    conv_filters: tuple[int, ...] = setting((16, 32), ge=1, requires={"network": "cnn"})
    """CNN only: number of filters of each 3 x 3 convolution, padded by 1."""
    conv_strides: tuple[int, ...] = setting((1,), ge=1, requires={"network": "cnn"})
    """CNN only: stride of each convolution, or one for all. A stride of 2 halves height and width."""
    conv_pools: tuple[int, ...] = setting((1,), ge=1, requires={"network": "cnn"})
    """CNN only: side of the windows of max pooling after each convolution, or one for all; 1 does not pool."""

    def spec(self, obs_width: int, layout: ObservationLayout | None = None) -> dict[str, Any]:
        """Return the arguments of `Network` as JSON data, for inputs of width D that begin with an observation."""
        spec: dict[str, Any] = {
            "obs_width": obs_width,
            "network": self.network,
            "hidden_sizes": list(self.hidden_sizes),
            "activation": self.activation,
            "image": list(self.image),
            "conv_filters": list(self.conv_filters),
        }
        if layout is not None and layout.blocks:
            spec["blocks"] = {name: list(shape) for name, shape in layout.blocks.items()}
        if self.network == "cnn":
            spec["channels_last"] = self.channels_last if self.image or layout is None else layout.channels_last
            spec |= {"conv_strides": list(self.conv_strides), "conv_pools": list(self.conv_pools)}
        return spec


class Network(nn.Module):
    """Map inputs (..., D) to outputs (..., outputs): optional convolutions, MLP, optional GRU, linear layer.

    The caller keeps the hidden state (..., H) of a GRU. H is `hidden_width`, 0 for feedforward networks.
    """

    def __init__(
        self, spec: Mapping[str, Any], outputs: int, out_gain: float, generator: torch.Generator | None = None
    ) -> None:
        """Draw orthogonal weights on the CPU, see `trainers.models.networks.mlp`.

        Args:
            spec: See `NetworkConfig.spec`.
            outputs: Width of the output.
            out_gain: Gain of the last layer: 0.01 for a policy (nearly uniform at the start), 1 for a critic.
            generator: CPU generator of the weights.

        Raises:
            ConfigError: A CNN has no image, one larger than D, or one smaller than its strides and pools; or a GRU has
                no hidden layer.
        """
        super().__init__()
        hidden, activation, width = list(spec["hidden_sizes"]), spec["activation"], int(spec["obs_width"])
        self.images: list[tuple[int, list[int]]] = []  # first entry, and channels, height and width
        self.channels_last: bool = spec.get("channels_last", False)
        self.convolutions: nn.Sequential | None = None
        self.cell: nn.GRUCell | None = None
        self.hidden_width = 0
        if spec["network"] == "cnn":
            width = self._see(spec, width, generator)
        if spec["network"] == "gru":
            if not hidden:
                raise ConfigError("learner.hidden_sizes: expected at least the width of the GRU, got ()")
            self.hidden_width: int = hidden[-1]
            self.body = mlp([width, *hidden], activation, math.sqrt(2.0), generator)
            self.body.append(ACTIVATIONS[activation]())
            self.cell = nn.GRUCell(hidden[-1], hidden[-1])
            for weight, bias in (
                (self.cell.weight_ih, self.cell.bias_ih),
                (self.cell.weight_hh, self.cell.bias_hh),
            ):
                _draw_orthogonal(weight, 1.0, generator)
                bias.data.zero_()
            self.out: nn.Module = mlp([hidden[-1], outputs], activation, out_gain, generator)
        else:
            self.body: torch.nn.Sequential = mlp([width, *hidden, outputs], activation, out_gain, generator)
            self.out = nn.Identity()

    def _see(self, spec: Mapping[str, Any], width: int, generator: torch.Generator | None) -> int:
        """Build the convolutions of every image and return the input width of the MLP."""
        self.images, filters = _images(spec, width), list(spec["conv_filters"])
        strides, pools = (_per_convolution(spec, name, len(filters)) for name in ("conv_strides", "conv_pools"))
        layers: list[nn.Module] = []  # of one image after another
        for _, image in self.images:
            channels, *sides = image
            for count, stride, pool in zip(filters, strides, pools, strict=True):
                layer = nn.Conv2d(channels, count, 3, stride, padding=1)
                _draw_orthogonal(layer.weight, math.sqrt(2.0), generator)
                nn.init.zeros_(layer.get_parameter("bias"))
                layers += [layer, ACTIVATIONS[spec["activation"]](), *([nn.MaxPool2d(pool)] if pool > 1 else [])]
                channels, sides = count, [((side - 1) // stride + 1) // pool for side in sides]
            if min(sides) < 1:
                raise ConfigError(
                    f"learner.conv_pools: expected windows that leave at least one cell of an image of {image[1]} x "
                    f"{image[2]}, got strides {tuple(strides)} and pools {tuple(pools)}"
                )
            layers.append(nn.Flatten())
            width += channels * math.prod(sides) - math.prod(image)
        self.convolutions = nn.Sequential(*layers)
        return width

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., D) to (..., outputs); feedforward networks only."""
        assert self.cell is None, "a recurrent network needs step() or unroll()"
        return self.body(self._features(x)).to(x.dtype)  # autocast returns bfloat16

    def step(self, x: Tensor, hidden_state: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Compute one time step from inputs (..., D) and `hidden_state` (..., H).

        Returns:
            Outputs and the next hidden states.
        """
        if self.cell is None:
            return self(x), hidden_state
        assert hidden_state is not None
        rows = self.body(x).flatten(0, -2)
        new = self.cell(rows, hidden_state.reshape(-1, self.hidden_width)).to(x.dtype).view_as(hidden_state)
        return self.out(new).to(x.dtype), new

    def unroll(self, x: Tensor, hidden_state: Tensor | None, begins: Tensor, advances: Tensor | None = None) -> Tensor:
        """Compute T time steps, with gradients through all of them.

        Args:
            x: (T, N, D).
            hidden_state: (N, H), before the first step; ignored without a GRU.
            begins: (T, N) bool, hidden states are reset before this step.
            advances: (T, N) bool, this step changes hidden states, see `gpu_envs.utils.observed_turns`; None: all do.

        Returns:
            (T, N, outputs).
        """
        if self.cell is None:
            return self(x)
        assert hidden_state is not None
        return self.out(self.hidden_states(x, hidden_state, begins, advances)).to(x.dtype)

    def hidden_states(self, x: Tensor, hidden_state: Tensor, begins: Tensor, advances: Tensor | None = None) -> Tensor:
        """Return the hidden states after every step (T, N, H), the inputs of `out`; arguments as in `unroll`."""
        assert self.cell is not None, "hidden states need a recurrent network"
        features, keep = self.body(x), (~begins).unsqueeze(-1).to(x.dtype)
        remembered: list[Tensor] = []
        for t in range(x.shape[0]):
            previous = (remembered[-1] if t else hidden_state) * keep[t]
            after = self.cell(features[t], previous)
            remembered.append(after if advances is None else torch.where(advances[t].unsqueeze(-1), after, previous))
        return torch.stack(remembered).to(x.dtype)

    def _features(self, x: Tensor) -> Tensor:
        if self.convolutions is None:
            return x
        parts, end = [], 0
        layers, count = list(self.convolutions.children()), len(self.convolutions) // len(self.images)
        for index, (start, (channels, height, width)) in enumerate(self.images):
            prefix, end = x[..., end:start], start + channels * height * width
            if self.channels_last:
                features = x[..., start:end].reshape(-1, height, width, channels).permute(0, 3, 1, 2)
            else:
                features = x[..., start:end].reshape(-1, channels, height, width)
            for layer in layers[index * count : (index + 1) * count]:
                features = layer(features)
            parts += [prefix, features.to(x.dtype).view(*x.shape[:-1], features.shape[-1])]
        return torch.cat([*parts, x[..., end:]], -1)


def _images(spec: Mapping[str, Any], width: int) -> list[tuple[int, list[int]]]:
    """Return the first entry, and channels, height and width, of the images of inputs of width D."""
    if spec["image"] or not any(len(shape) == 3 for shape in spec.get("blocks", {}).values()):
        image = list(spec["image"])
        if len(image) != 3 or math.prod(image) > width:
            raise ConfigError(
                f"learner.image: expected channels, height and width of at most the {width} numbers "
                f"of an observation, got {tuple(image)}"
            )
        return [(0, image)]
    images, start = [], 0
    for shape in spec["blocks"].values():
        if len(shape) == 3:
            images.append((start, [*shape[2:], *shape[:2]] if spec.get("channels_last") else list(shape)))
        start += math.prod(shape)
    return images


def _per_convolution(spec: Mapping[str, Any], name: str, count: int) -> list[int]:
    """Return a setting of every convolution; specifications of earlier versions have none, which is 1."""
    values = list(spec.get(name, [1]))
    if len(values) not in (1, count):
        raise ConfigError(f"learner.{name}: expected one number, or one for each of {count} convolutions, got {values}")
    return values * count if len(values) == 1 else values


def with_ids(x: Tensor, agents: int) -> Tensor:
    """Return inputs (..., n, D) with the one-hot index of each agent appended, (..., n, D + n).

    Args:
        x: Inputs.
        agents: n; 0 returns the inputs unchanged.

    Raises:
        ConfigError: The number of agents is not n.
    """
    if not agents:
        return x
    if x.dim() < 2 or x.shape[-2] != agents:
        raise ConfigError(
            f"policy with indices of {agents} agents: expected observations (..., {agents}, D), got {tuple(x.shape)}"
        )
    ids = torch.eye(agents, dtype=x.dtype, device=x.device)
    return torch.cat([x, ids.expand(*x.shape[:-1], agents)], -1)


def actor_width(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy's spec with the input width of its network, which includes one-hot indices, see `with_ids`."""
    return {**spec, "obs_width": spec["obs_width"] + spec.get("ids", 0)}


def mlp(
    sizes: Sequence[int], activation: str, out_gain: float, generator: torch.Generator | None = None
) -> nn.Sequential:
    """Return a multi-layer perceptron with orthogonal weights and zero biases, built on the CPU.

    Source: initialization of Engstrom et al. 2020, "Implementation Matters in Deep Policy Gradients".

    Args:
        sizes: Widths from input to output.
        activation: "tanh" or "relu", between layers.
        out_gain: Gain of the last layer: 0.01 for a policy (nearly uniform at the start), 1 for a critic.
        generator: CPU generator of the weights.
    """
    layers: list[nn.Module] = []
    last = len(sizes) - 2
    for i, (width_in, width_out) in enumerate(itertools.pairwise(sizes)):
        linear = nn.Linear(width_in, width_out)
        _draw_orthogonal(linear.weight, out_gain if i == last else math.sqrt(2.0), generator)
        nn.init.zeros_(linear.bias)
        layers += [linear] if i == last else [linear, ACTIVATIONS[activation]()]
    return nn.Sequential(*layers)


def _draw_orthogonal(weight: Tensor, gain: float, generator: torch.Generator | None) -> None:
    """Draw orthogonal weights with one thread: LAPACK computes other bits with several."""
    with torch_threads(1):
        nn.init.orthogonal_(weight, gain, generator)


@torch.no_grad()
def polyak_update(target: nn.Module, net: nn.Module, tau: float) -> None:
    """Move the weights of a target network a share `tau` of the way towards the weights of `net`."""
    for slow, fast in zip(target.parameters(), net.parameters(), strict=True):
        slow.lerp_(fast, tau)


def target_copy(net: M) -> M:
    """Return a copy of a network without gradients, as target network."""
    return copy.deepcopy(net).requires_grad_(False)
