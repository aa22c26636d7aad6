"""Networks by their names, those of this module and of others, all with the interface of `NetworkSpec`."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from gpu_envs.definition.id_modules import named_object
from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import Bounds, setting
from trainers.base.learner_spec import ObservationLayout
from trainers.base.torch_threads import torch_threads
from trainers.models.blocks import block_shapes, split_blocks
from trainers.models.transformer import Transformer

M = TypeVar("M", bound=nn.Module)

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "gelu": nn.GELU}  # setting -> layer


RECURRENT = Bounds(choices=("gru",), by_name=True)
"""Networks with a hidden state, for the settings of learners that only these need."""
CONVOLUTIONAL = Bounds(choices=("cnn", "resnet"), by_name=True)
"""Networks with convolutions."""
BLOCKWISE = Bounds(choices=("attention",), by_name=True)
"""Networks that get the blocks that an environment describes, besides those of its observation space."""
HEADS = 4
"""Heads of attention."""


@dataclass(frozen=True)
class NetworkConfig:
    """Network settings, shared by all algorithms."""

    network: str = setting("mlp", choices=("mlp", "gru", "cnn", "resnet", "attention"), by_name=True)
    """Kind of network: "mlp", "gru" (an MLP and a recurrent layer), "cnn" (convolutions and an MLP), "resnet" (a CNN
    with residual blocks) or "attention" (to entities, and an MLP). Use "gru" for tasks that need memory within an
    episode, "cnn" or "resnet" for image observations, and "attention" for several units, agents or landmarks whose
    order has no meaning. "module:Name" is your class, see `trainers.models.networks.NetworkSpec`."""
    hidden_sizes: tuple[int, ...] = setting((64, 64), ge=1, le=2**16)
    """Widths of the hidden layers; with a GRU the last one is its hidden state's, with attention the
    first one is the width of entities."""
    activation: str = setting("tanh", choices=("tanh", "relu"))
    """Activation function of the hidden layers: "tanh" or "relu"."""
    image: tuple[int, ...] = setting((), ge=1, requires={"network": CONVOLUTIONAL})
    """CNN only: channels, height and width of the image at the start of every observation. The other entries go
    directly to the MLP. Left out, it is every image of the environment's observation space."""
    channels_last: bool = setting(False, requires={"network": CONVOLUTIONAL})
    """CNN only: observations contain the image by height, width and channels, instead of channels, height and width.
    An image space of the environment has its own order."""
    conv_filters: tuple[int, ...] = setting((16, 32), ge=1, requires={"network": CONVOLUTIONAL})
    """CNN only: number of filters of each 3 x 3 convolution, padded by 1, and of its residual blocks in a "resnet"."""
    conv_strides: tuple[int, ...] = setting((1,), ge=1, requires={"network": CONVOLUTIONAL})
    """CNN only: stride of each convolution, or one for all. A stride of 2 halves height and width."""
    conv_pools: tuple[int, ...] = setting((1,), ge=1, requires={"network": CONVOLUTIONAL})
    """CNN only: side of the windows of max pooling after each convolution, or one for all; 1 does not pool."""

    def spec(self, obs_width: int, layout: ObservationLayout | None = None) -> dict[str, Any]:
        """Return the arguments of `Network` as JSON data, for inputs of width D that begin with an observation."""
        if layout is not None and layout.with_entities is not None and BLOCKWISE.allow(self.network):
            layout = layout.with_entities()
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
            if layout.by_feature:
                spec["by_feature"] = list(layout.by_feature)
            if layout.targets:
                spec["targets"] = dict(layout.targets)
        if self.network != "mlp" and CONVOLUTIONAL.allow(self.network):
            spec["channels_last"] = self.channels_last if self.image or layout is None else layout.channels_last
            spec |= {"conv_strides": list(self.conv_strides), "conv_pools": list(self.conv_pools)}
        return spec

    def state_spec(self, blocks: Mapping[str, int]) -> dict[str, Any]:
        """Return the specification of a network on vectors, such as the global state.

        An MLP takes the place of a network of images, entities or teams.
        """
        network = "mlp" if self.network in ("cnn", "resnet", "attention", "transformer") else self.network
        widths = {name: [width] for name, width in blocks.items() if width}
        return {**self.spec(sum(blocks.values())), "network": network, "blocks": widths}


@dataclass(frozen=True)
class NetworkSpec:
    """What a network is built from: `Name(spec)` for every name of the setting `learner.network`.

    A network is an `nn.Module` with `forward(obs, mask, hidden)`. It gets rows `obs` (N, width) and returns
    `(outputs, hidden)`, outputs (N, outputs) and the next hidden state. A network with a hidden state (N, H) declares H
    as `hidden_size`, and perhaps the state at the start of an episode as `initial_hidden` (H,), else zeros; for others
    `hidden` is None. `mask` (N, choices) marks the legal actions, for policies in environments with masks; for critics
    and action values it is None. A network may define `unroll(obs, mask, hidden, begins, advances)`, see
    `Network.unroll`, if it computes T steps faster than one after another.
    """

    blocks: Mapping[str, tuple[int, ...]]
    """Shapes of the parts of a row by name, in order: the blocks of an observation, "observation" if it has none, or
    "state" (S,), the global state, for a critic on it; and perhaps "agent", one-hot index, and "action". Blocks of n
    entities with d numbers each, such as the units in SMAX-v0, are (n, d)."""
    outputs: int
    """Width of the outputs: 1 for a critic of a state, else parameters of the distribution of actions, or values."""
    sizes: tuple[int, ...]
    """Choices of every component of discrete actions, whose logits or values are the outputs; else (outputs,)."""
    role: str
    """"actor" for policies and the action values of Q-learning, "critic" for critics."""
    hidden_sizes: tuple[int, ...] = (64, 64)
    """Setting `learner.hidden_sizes`."""
    activation: str = "tanh"
    """Setting `learner.activation`."""
    out_gain: float = 1.0
    """Gain of the last layer's initial weights: 0.01 for a policy (nearly uniform at the start), 1 for a critic."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """All network settings as JSON data, see `NetworkConfig.spec`."""
    by_feature: tuple[str, ...] = ()
    """Names of blocks of entities that are transposed in a row, which `split` reads."""
    targets: Mapping[str, int] = field(default_factory=dict)
    """First action that chooses an entity, such as its attack, by block; the next ones choose the next entities."""
    generator: torch.Generator | None = None
    """CPU generator of the initial weights. The global random stream is seeded from it for a module from elsewhere."""

    @property
    def width(self) -> int:
        """Width of a row."""
        return sum(map(math.prod, self.blocks.values()))

    def split(self, obs: Tensor) -> dict[str, Tensor]:
        """Return the blocks `(N, *shape)` of rows (N, width) by name."""
        return split_blocks(obs, self.blocks, self.by_feature)

    def mlp(self, *sizes: int) -> nn.Sequential:
        """Return a perceptron of these widths, see `mlp`; the gain of its last layer is `out_gain`."""
        return mlp(sizes, self.activation, self.out_gain, self.generator)


class MLP(nn.Module):
    """Multi-layer perceptron."""

    def __init__(self, spec: NetworkSpec) -> None:
        """Draw orthogonal weights, see `mlp`."""
        super().__init__()
        self.body: nn.Sequential = spec.mlp(spec.width, *spec.hidden_sizes, spec.outputs)

    def forward(self, obs: Tensor, mask: Tensor | None, hidden: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Map (N, D) to (N, outputs)."""
        return self.body(self.features(obs)), hidden

    def features(self, obs: Tensor) -> Tensor:
        """Return the inputs (N, D) of the perceptron."""
        return obs


class GRU(nn.Module):
    """MLP, gated recurrent unit, linear layer."""

    def __init__(self, spec: NetworkSpec) -> None:
        """Draw orthogonal weights, see `mlp`; raise ConfigError if there is no hidden layer."""
        super().__init__()
        if not spec.hidden_sizes:
            raise ConfigError("learner.hidden_sizes: expected at least the width of the GRU, got ()")
        width = self.hidden_size = spec.hidden_sizes[-1]
        self.body: nn.Sequential = mlp(
            [spec.width, *spec.hidden_sizes], spec.activation, math.sqrt(2.0), spec.generator
        )
        self.body.append(ACTIVATIONS[spec.activation]())
        self.cell: nn.GRUCell = nn.GRUCell(width, width)
        for weight, bias in ((self.cell.weight_ih, self.cell.bias_ih), (self.cell.weight_hh, self.cell.bias_hh)):
            _draw_orthogonal(weight, 1.0, spec.generator)
            bias.data.zero_()
        self.out: nn.Sequential = spec.mlp(width, spec.outputs)

    def forward(self, obs: Tensor, mask: Tensor | None, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Map (N, D) and hidden states (N, H) to (N, outputs) and the next hidden states."""
        after = self.cell(self.body(obs), hidden).to(hidden.dtype)
        return self.out(after), after

    def unroll(
        self, obs: Tensor, mask: Tensor | None, hidden: Tensor, begins: Tensor, advances: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Compute T time steps, see `Network.unroll`; one call of the MLP for all of them."""
        features, keep = self.body(obs), (~begins).unsqueeze(-1).to(obs.dtype)
        remembered: list[Tensor] = []
        for t in range(obs.shape[0]):
            previous = (remembered[-1] if t else hidden) * keep[t]
            after = self.cell(features[t], previous)
            remembered.append(after if advances is None else torch.where(advances[t].unsqueeze(-1), after, previous))
        states = torch.stack(remembered).to(obs.dtype)
        return self.out(states), states


class CNN(MLP):
    """Convolutions for every image, and an MLP on their features and all other entries."""

    residual_blocks: int = 0
    """Number of residual blocks after every convolution."""

    def __init__(self, spec: NetworkSpec) -> None:
        """Draw orthogonal weights, see `mlp`.

        Raises:
            ConfigError: There is no image, or it is larger than the input or smaller than the strides and pools.
        """
        nn.Module.__init__(self)
        settings, width = spec.settings, spec.width
        self.channels_last: bool = settings.get("channels_last", False)
        self.images: list[tuple[int, list[int]]] = _images(settings, width)  # first entry, channels, height and width
        filters = list(settings["conv_filters"])
        strides, pools = (_per_convolution(settings, name, len(filters)) for name in ("conv_strides", "conv_pools"))
        layers: list[nn.Module] = []  # of one image after another
        for _, image in self.images:
            channels, *sides = image
            for count, stride, pool in zip(filters, strides, pools, strict=True):
                layers.append(_convolution(channels, count, stride, spec))
                layers += [] if self.residual_blocks else [ACTIVATIONS[spec.activation]()]
                layers += [nn.MaxPool2d(pool)] if pool > 1 else []
                layers += [ResidualBlock(count, spec) for _ in range(self.residual_blocks)]
                channels, sides = count, [((side - 1) // stride + 1) // pool for side in sides]
            if min(sides) < 1:
                raise ConfigError(
                    f"learner.conv_pools: expected windows that leave at least one cell of an image of {image[1]} x "
                    f"{image[2]}, got strides {tuple(strides)} and pools {tuple(pools)}"
                )
            layers += [ACTIVATIONS[spec.activation]()] if self.residual_blocks else []
            layers.append(nn.Flatten())
            width += channels * math.prod(sides) - math.prod(image)
        self.convolutions: nn.Sequential = nn.Sequential(*layers)
        self.body = spec.mlp(width, *spec.hidden_sizes, spec.outputs)

    def features(self, obs: Tensor) -> Tensor:
        """Return the features (N, F) of rows (N, D): those of the images between the other entries."""
        parts, end = [], 0
        layers, count = list(self.convolutions.children()), len(self.convolutions) // len(self.images)
        for index, (start, (channels, height, width)) in enumerate(self.images):
            prefix, end = obs[..., end:start], start + channels * height * width
            if self.channels_last:
                features = obs[..., start:end].reshape(-1, height, width, channels).permute(0, 3, 1, 2)
            else:
                features = obs[..., start:end].reshape(-1, channels, height, width)
            for layer in layers[index * count : (index + 1) * count]:
                features = layer(features)
            parts += [prefix, features.to(obs.dtype).view(*obs.shape[:-1], features.shape[-1])]
        return torch.cat([*parts, obs[..., end:]], -1)


class ResidualBlock(nn.Module):
    """Two convolutions, whose result is added to their input; an activation precedes each."""

    def __init__(self, channels: int, spec: NetworkSpec) -> None:
        super().__init__()
        activation = ACTIVATIONS[spec.activation]
        first, second = (_convolution(channels, channels, 1, spec) for _ in range(2))
        self.layers: nn.Sequential = nn.Sequential(activation(), first, activation(), second)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, channels, height, width) to images of the same shape."""
        return x + self.layers(x)


class ResNet(CNN):
    """CNN with two residual blocks after every convolution and its pooling.

    Source: the large network of Espeholt et al. 2018, "IMPALA", figure 3, which has conv_filters (16, 32, 32).
    """

    residual_blocks: int = 2


class Attention(nn.Module):
    """Attention of an agent to entities, and an MLP; outputs do not depend on the order of the entities of a block.

    Only outputs that choose an entity follow it: each is the product of its embedding and a function of the features.

    A layer per block embeds its entities, and one the agent's own numbers, which describe no entity. The queries of
    the heads are linear functions of the latter; all embeddings are keys and values. Entities whose numbers are all 0
    are absent.

    Source: scaled dot-product attention of Vaswani et al. 2017, "Attention Is All You Need"; embeddings by kind of
    entity as in Baker et al. 2020, "Emergent Tool Use From Multi-Agent Autocurricula"; choices as in Vinyals et
    al. 2015, "Pointer Networks".
    """

    def __init__(self, spec: NetworkSpec) -> None:
        """Draw orthogonal weights, see `mlp`; raise ConfigError if there are no entities, or no hidden layer."""
        super().__init__()
        self.blocks, self.by_feature = spec.blocks, spec.by_feature
        shapes = [shape for shape in spec.blocks.values() if len(shape) == 2]
        if not shapes:
            parts = ", ".join(f"{name} {shape}" for name, shape in spec.blocks.items())
            raise ConfigError(
                f"learner.network: attention: expected an environment with blocks of entities, equal for all agents of "
                f"a policy, got {parts}; use mlp"
            )
        if not spec.hidden_sizes:
            raise ConfigError("learner.hidden_sizes: expected at least the width of entities, got ()")
        width, remaining = spec.hidden_sizes[0], spec.width - sum(map(math.prod, shapes))

        def embedding(numbers: int) -> nn.Sequential:
            layers = mlp([numbers, width], spec.activation, math.sqrt(2.0), spec.generator)
            return layers.append(ACTIVATIONS[spec.activation]())

        self.agent_embedding: nn.Sequential = embedding(max(remaining, 1))
        self.kinds: nn.ModuleList = nn.ModuleList(embedding(numbers) for _, numbers in shapes)
        self.queries: nn.Sequential = mlp([width, HEADS * width], spec.activation, 1.0, spec.generator)
        names = [name for name, shape in spec.blocks.items() if len(shape) == 2]
        value = int(spec.settings.get("action", {}).get("dueling", False))  # output of a dueling head before the others
        targets = [(value + spec.targets[name], index) for index, name in enumerate(names) if name in spec.targets]
        self.targets: list[tuple[int, int]] = sorted(
            (first, index) for first, index in targets if first + shapes[index][0] <= spec.outputs
        )
        """First output that chooses an entity of a block, and the index of the block; a critic of states has none."""
        features, chosen = (1 + HEADS) * width, sum(shapes[index][0] for _, index in self.targets)
        self.body: nn.Sequential = spec.mlp(features, *spec.hidden_sizes[1:], spec.outputs - chosen)
        self.pointers: nn.ModuleList = nn.ModuleList(spec.mlp(features, width) for _ in self.targets)

    def forward(self, obs: Tensor, mask: Tensor | None, hidden: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Map (N, D) to (N, outputs)."""
        blocks = split_blocks(obs, self.blocks, self.by_feature).values()
        entities = [block for block in blocks if block.dim() == 3]
        numbers = [block.flatten(1) for block in blocks if block.dim() != 3] or [torch.ones_like(obs[:, :1])]
        agent = self.agent_embedding(torch.cat(numbers, -1))
        embedded = [kind(block) for kind, block in zip(self.kinds, entities, strict=True)]
        keys = torch.cat([agent.unsqueeze(1), *embedded], 1)  # (N, 1 + entities, width)
        present = torch.cat([(block != 0.0).any(-1) for block in entities], -1)
        present = nn.functional.pad(present, (1, 0), value=True).unsqueeze(1)
        queries = self.queries(agent).unflatten(-1, (HEADS, -1))
        attended = nn.functional.scaled_dot_product_attention(queries, keys, keys, present)
        features = torch.cat([agent, attended.flatten(1)], -1)
        outputs = self.body(features)
        for (first, index), pointer in zip(self.targets, self.pointers, strict=True):
            scores = (embedded[index] @ pointer(features).unsqueeze(-1)).squeeze(-1)
            outputs = torch.cat([outputs[:, :first], scores, outputs[:, first:]], -1)
        return outputs, hidden


def team_transformer(spec: NetworkSpec) -> Transformer:
    """Return the network of a team, which `Transformer.act` queries.

    Raises:
        ConfigError: The policy distinguishes no agents, or the widths are unequal or no multiples of the heads.
    """
    agents, heads, action = spec.settings.get("ids", 0), spec.settings.get("num_heads", 1), spec.settings["action"]
    if not agents:
        raise ConfigError("learner.network: transformer: expected a policy that distinguishes agents, got ids = 0")
    if len(set(spec.hidden_sizes)) != 1 or spec.hidden_sizes[0] % heads:
        raise ConfigError(
            f"learner.hidden_sizes: expected equal widths, multiples of num_heads = {heads}, got {spec.hidden_sizes}"
        )
    code_width, activation = len(action.get("low", ())) or spec.outputs, ACTIVATIONS[spec.activation]
    sizes = (spec.width, agents, code_width, spec.outputs, spec.hidden_sizes, heads)
    return Transformer(*sizes, activation, spec.out_gain, spec.generator)


NETWORKS: dict[str, Callable[[NetworkSpec], nn.Module]] = {
    "mlp": MLP,
    "gru": GRU,
    "cnn": CNN,
    "resnet": ResNet,
    "attention": Attention,
    "transformer": team_transformer,
}
"""Networks by their names; "module:Name" are more."""


class Network(nn.Module):
    """Map inputs (..., D) to outputs (..., outputs) by the network of a setting.

    The caller keeps the hidden state (..., H), zeros at the start of an episode. H is `hidden_width`, 0 for networks
    without one. Names of weights in a state are those of the module.
    """

    def __init__(
        self,
        spec: Mapping[str, Any],
        outputs: int,
        out_gain: float,
        generator: torch.Generator | None = None,
        role: str = "actor",
    ) -> None:
        """Build the module on the CPU.

        Args:
            spec: See `NetworkConfig.spec`, and `Policy` for actors.
            outputs: Width of the output.
            out_gain: Gain of the last layer: 0.01 for a policy (nearly uniform at the start), 1 for a critic.
            generator: CPU generator of the weights.
            role: See `NetworkSpec`.

        Raises:
            ConfigError: The module cannot be built, or returns outputs of another shape.
        """
        super().__init__()
        action = spec.get("action", {})
        sizes = tuple(action.get("sizes", ()))
        self.masked: bool = role == "actor" and bool(spec.get("has_action_mask")) and action.get("kind") != "greedy"
        """Whether the module gets masks."""
        network_spec = NetworkSpec(
            block_shapes(spec),
            outputs,
            sizes if sum(sizes) == outputs else (outputs,),
            role,
            tuple(spec["hidden_sizes"]),
            spec["activation"],
            out_gain,
            spec,
            tuple(spec.get("by_feature", ())),
            spec.get("targets", {}),
            generator,
        )
        name = spec["network"]
        self.module: Any = (
            NETWORKS[name](network_spec)
            if name in NETWORKS
            else _build_named(name, network_spec, sum(sizes) if self.masked else 0)
        )
        self.hidden_width: int = getattr(self.module, "hidden_size", 0)

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Return the weights of the module, by its names."""
        return self.module.state_dict(*args, destination=destination, prefix=prefix, keep_vars=keep_vars)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **named: Any) -> None:
        for name in [name for name in state_dict if name.startswith(prefix)]:
            state_dict[f"{prefix}module.{name.removeprefix(prefix)}"] = state_dict.pop(name)
        super()._load_from_state_dict(state_dict, prefix, *args, **named)

    def check_feedforward(self, algorithms: str, instead: str = "qmix or ppo") -> None:
        """Raise ConfigError if the network has a hidden state, which some algorithms do not support."""
        if self.hidden_width:
            raise ConfigError(
                f"learner.network: expected one without a hidden state for {algorithms}, got "
                f"{type(self.module).__name__}; use {instead}"
            )

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map (..., D) to (..., outputs); feedforward networks only."""
        assert not self.hidden_width, "a recurrent network needs step() or unroll()"
        return self.step(x, None, mask)[0]

    def step(self, x: Tensor, hidden_state: Tensor | None, mask: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Compute one time step from inputs (..., D), `hidden_state` (..., H) and masks (..., choices).

        Returns:
            Outputs and the next hidden states.
        """
        if not self.masked:
            mask = None
        elif mask is not None:
            mask = mask.expand(*x.shape[:-1], mask.shape[-1]).reshape(-1, mask.shape[-1])
            mask = mask | ~mask.any(-1, keepdim=True)  # agents that have left have no legal action
        rows = x.reshape(-1, x.shape[-1])
        if not self.hidden_width:
            outputs = self.module(rows, mask, None)[0]
            return outputs.to(x.dtype).view(*x.shape[:-1], outputs.shape[-1]), hidden_state  # autocast: bfloat16
        assert hidden_state is not None
        outputs, after = self.module(rows, mask, self._absolute(hidden_state.reshape(-1, self.hidden_width)))
        after = self._relative(after.to(x.dtype)).view_as(hidden_state)
        return outputs.to(x.dtype).view(*x.shape[:-1], outputs.shape[-1]), after

    def unroll(
        self,
        x: Tensor,
        hidden_state: Tensor | None,
        begins: Tensor,
        advances: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Compute T time steps, with gradients through all of them.

        Args:
            x: (T, N, D).
            hidden_state: (N, H), before the first step; ignored without a hidden state.
            begins: (T, N) bool, hidden states are reset before this step.
            advances: (T, N) bool, this step changes hidden states, see `gpu_envs.utils.observed_turns`; None: all do.
            mask: (T, N, choices).

        Returns:
            (T, N, outputs), and the hidden states after every step (T, N, H).
        """
        if not self.hidden_width:
            return self(x, mask), x.new_zeros((*x.shape[:2], 0))
        assert hidden_state is not None
        if hasattr(self.module, "unroll"):
            outputs, states = self.module.unroll(x, mask, self._absolute(hidden_state), begins, advances)
            return outputs.to(x.dtype), self._relative(states)
        steps: list[tuple[Tensor, Tensor]] = []
        for t in range(x.shape[0]):
            previous = (steps[-1][1] if t else hidden_state).masked_fill(begins[t].unsqueeze(-1), 0.0)
            output, after = self.step(x[t], previous, None if mask is None else mask[t])
            assert after is not None
            steps.append((output, after if advances is None else torch.where(advances[t, :, None], after, previous)))
        outputs, states = zip(*steps, strict=True)
        return torch.stack(outputs), torch.stack(states)

    def _absolute(self, hidden: Tensor) -> Tensor:
        """Return hidden states as the module has them; the caller's are differences to the initial one."""
        initial = getattr(self.module, "initial_hidden", None)
        return hidden if initial is None else hidden + initial

    def _relative(self, hidden: Tensor) -> Tensor:
        initial = getattr(self.module, "initial_hidden", None)
        return hidden if initial is None else hidden - initial


def named_network(name: str) -> type[nn.Module]:
    """Return the class that "module:Name" names; raise ConfigError if it is not imported, or no `nn.Module`."""
    return named_object("learner.network", name, nn.Module)


def _build_named(name: str, spec: NetworkSpec, choices: int) -> nn.Module:
    """Build the module that "module:Name" names, and check the shapes that it returns.

    Raises:
        ConfigError: It is no `nn.Module`, its constructor or `forward` raises an error, or a shape is wrong.
    """
    where, cls = f"learner.network {name!r}", named_network(name)
    # it draws its weights from the global random stream
    seed = 0 if spec.generator is None else int(torch.randint(2**62, (), generator=spec.generator))
    with torch.random.fork_rng(devices=()), torch.device("cpu"):
        torch.default_generator.manual_seed(seed)
        rows, mask = torch.zeros((2, spec.width)), torch.ones((2, choices), dtype=torch.bool) if choices else None
        try:
            module = cls(spec)
        except Exception as error:
            raise ConfigError(f"{where}: expected {cls.__name__}(spec) to build it, got {error_line(error)}") from error
        size, initial = getattr(module, "hidden_size", 0), getattr(module, "initial_hidden", None)
        if not isinstance(size, int) or (initial is not None and tuple(getattr(initial, "shape", ())) != (size,)):
            actual = "none" if initial is None else getattr(initial, "shape", initial)
            raise ConfigError(
                f"{where}: expected an int hidden_size, and initial_hidden of that width, got {size!r} and {actual}"
            )
        hidden = torch.zeros((2, size)) if size else None
        try:
            module.eval()
            with torch.no_grad():
                result = module(rows, mask, hidden)
        except Exception as error:
            inputs = f"obs (2, {spec.width}), mask {_shape(mask)}, hidden {_shape(hidden)}"
            raise ConfigError(f"{where}: expected forward to take {inputs}, got {error_line(error)}") from error
    shapes = tuple(map(_shape, result)) if isinstance(result, tuple) else (_shape(result),)
    expected = (str((2, spec.outputs)), _shape(hidden))
    if shapes != expected:
        raise ConfigError(
            f"{where}: expected forward to return (outputs, hidden) of shapes ({', '.join(expected)}) for 2 rows, "
            f"got ({', '.join(shapes)}); the {spec.role} has {spec.outputs} outputs"
        )
    return module.train()


def _shape(value: Any) -> str:
    return str(tuple(value.shape)) if isinstance(value, Tensor) else "None" if value is None else type(value).__name__


def error_line(error: Exception) -> str:
    """Return an error as one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split()):.300}"


def with_block(spec: Mapping[str, Any], name: str, width: int) -> dict[str, Any]:
    """Return the specification of a network whose inputs have one more block at the end, if its width is not 0.

    Raises:
        ConfigError: The observation has a block of this name.
    """
    if not width:
        return dict(spec)
    blocks = spec.get("blocks") or {"observation": [spec["obs_width"]]}
    if name in blocks:
        raise ConfigError(
            f"observation space: expected another name than {name!r}, which networks add; rename this block"
        )
    return {**spec, "obs_width": spec["obs_width"] + width, "blocks": {**blocks, name: [width]}}


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


def _convolution(channels: int, filters: int, stride: int, spec: NetworkSpec) -> nn.Conv2d:
    """Return a 3 x 3 convolution with orthogonal weights and zero biases."""
    layer = nn.Conv2d(channels, filters, 3, stride, padding=1)
    _draw_orthogonal(layer.weight, math.sqrt(2.0), spec.generator)
    nn.init.zeros_(layer.get_parameter("bias"))
    return layer


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


def team_inputs(x: Tensor, obs: Tensor) -> Tensor:
    """Return the inputs (..., n, D) of a team with zeros for absent agents, those whose observations are zeros.

    Dead agents observe zeros, see `trainers.models.policy.Policy.hides_dead`. If all of a team do, none is absent.
    """
    present = (obs != 0.0).any(-1)
    return x.masked_fill(~(present | ~present.any(-1, keepdim=True)).unsqueeze(-1), 0.0)


def actor_width(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a policy's network, whose inputs include one-hot indices, see `with_ids`."""
    return with_block(spec, "agent", spec.get("ids", 0))


def mlp(
    sizes: Sequence[int], activation: str, out_gain: float, generator: torch.Generator | None = None
) -> nn.Sequential:
    """Return a multi-layer perceptron with orthogonal weights and zero biases, built on the CPU.

    Source: initialization of Engstrom et al. 2020, "Implementation Matters in Deep Policy Gradients".

    Args:
        sizes: Widths from input to output.
        activation: Name in `ACTIVATIONS`, between layers.
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
