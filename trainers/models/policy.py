"""Frozen policies for evaluation, rendering and the league."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, overload

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from gpu_envs.errors import CheckpointError, ConfigError, format_names, shown
from gpu_envs.utils.settings import setting
from gpu_envs.utils.summaries import Summarized, Summary
from trainers.base.serialization import (
    check_finite,
    check_tensors,
    parse_json,
    read_json,
    read_record,
    read_tensors,
    write_json,
    write_tensors,
    wrong_format,
)
from trainers.models.action_heads import CategoricalHead, Head, action_text, check_action_spec, make_head, spec_like
from trainers.models.networks import ACTIVATIONS, NETWORKS, Network, NetworkConfig, actor_width, team_inputs, with_ids
from trainers.models.normalization import ObservationNormalizer
from trainers.models.transformer import Transformer

FORMAT = "gpu-envs policy 4"  # format of a policy's JSON file
READABLE = ("gpu-envs policy 3", FORMAT)
"""Formats that can be read; the first one does not say whether a policy needs masks."""
OPTIONAL = (
    *("ids", "decide_every", "has_action_mask", "blocks", "by_feature", "targets"),
    *("channels_last", "conv_strides", "conv_pools", "num_heads"),
)
"""Fields of a specification that only some policies have."""


@dataclass(frozen=True)
class PolicySpec(NetworkConfig):
    """Network and action specification of a policy, as in its JSON file."""

    network: str = setting("mlp", choices=tuple(NETWORKS), by_name=True)
    """Kind of network; "transformer", of a team, beside those of `NetworkConfig`."""
    activation: str = setting("tanh", choices=tuple(ACTIVATIONS))
    """Activation function; "gelu", of a transformer, beside those of `NetworkConfig`."""
    num_heads: int = setting(1, ge=1)
    """Heads of attention of a transformer."""
    obs_width: int = setting(0, ge=0)
    """Width D of the observations."""
    blocks: dict[str, list[int]] = field(default_factory=dict)
    """Shapes of the blocks of an observation by name, see `ObservationLayout`; {}: it is a vector."""
    by_feature: tuple[str, ...] = ()
    """Names of blocks of entities, see `ObservationLayout`."""
    targets: dict[str, int] = field(default_factory=dict)
    """First action that chooses an entity, by block, see `ObservationLayout`."""
    ids: int = setting(0, ge=0)
    """Number of agents distinguished by one-hot indices; 0: none."""
    decide_every: int = setting(1, ge=1)
    """Steps between two decisions; the action is held in between."""
    has_action_mask: bool = False
    """Whether actions can be illegal, so that the policy needs masks."""
    action: dict[str, Any] = field(default_factory=dict)
    """Action specification, see `trainers.models.action_heads.action_spec`."""


class PolicyProtocol(Protocol):
    """Interface of policies that control agents: trained, scripted or other."""

    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, hidden_state: Tensor | None = None
    ) -> Tensor:
        """Return actions for the environment, see `Policy.act`."""
        ...

    def initial_hidden_state(self, *shape: int) -> Tensor | None:
        """Return the initial hidden state, zeros `(*shape, H)`; None for a policy that is not recurrent."""
        ...

    def seed(self, seed: int) -> None:
        """Restart the random stream of samples."""
        ...


class PolicyModules(Protocol):
    """Modules of a policy, which policies and learners have."""

    @property
    def spec(self) -> dict[str, Any]:
        """Network and action specification, see `Policy`."""
        ...

    @property
    def normalizer(self) -> ObservationNormalizer:
        """Normalizer of observations."""
        ...

    @property
    def actor(self) -> Network:
        """Actor network."""
        ...

    @property
    def head(self) -> Head:
        """Action head of the actor's outputs."""
        ...

    @property
    def generator(self) -> torch.Generator:
        """Generator of samples."""
        ...


class Policy(Summarized):
    """Frozen copy of a learner's normalizer, actor and head, with its own random stream.

    Files: `<path>.safetensors` (weights) and `<path>.json` (network and action specification).
    """

    def __init__(
        self, spec: dict[str, Any], normalizer: ObservationNormalizer, actor: Network, head: Head, seed: int = 0
    ) -> None:
        """Take ownership of the modules.

        Args:
            spec: JSON data: `NetworkConfig.spec` of the layout of observations, "action", for a policy that
                distinguishes n agents "ids" = n, for one that decides at every n-th step "decide_every" = n, and for
                one that needs masks "has_action_mask".
            normalizer: Normalizer of observations.
            actor: Actor network.
            head: Action head of the actor's outputs.
            seed: Random seed of samples.
        """
        self.spec = spec
        self.net: torch.nn.ModuleDict = nn.ModuleDict(
            {"normalizer": normalizer, "actor": actor, "head": head}
        ).requires_grad_(False)
        self.normalizer: ObservationNormalizer = normalizer
        self.actor: Network = actor
        self.head: Head = head
        self.obs_width: int = spec["obs_width"]
        blocks = spec.get("blocks") or {"observation": [self.obs_width]}
        self.blocks: dict[str, tuple[int, ...]] = {name: tuple(shape) for name, shape in blocks.items()}
        self.ids: int = spec.get("ids", 0)
        self.hides_dead: bool = isinstance(actor.module, Transformer)
        """Whether agents that are dead must observe zeros, so that the others do not attend to them."""
        self.generator: torch.Generator = torch.Generator(normalizer.mean.device).manual_seed(seed)

    def _summary(self) -> Summary:
        boxes = {name: f"Box{shape}" for name, shape in self.blocks.items()}
        blocks = ", ".join(f"{name}: {box}" for name, box in boxes.items())
        facts = {
            "observation": boxes["observation"] if list(boxes) == ["observation"] else f"Dict({blocks})",
            "action": action_text(self.spec["action"]),
            "network": f"{self.spec['network']} {'-'.join(map(str, self.spec['hidden_sizes']))}",
            "parameters": sum(parameter.numel() for parameter in self.net.parameters()),
            "agents": self.ids or None,
            "device": self.normalizer.mean.device,
        }
        return Summary("", facts)

    def initial_hidden_state(self, *shape: int) -> Tensor | None:
        """Return the initial hidden state, zeros `(*shape, H)`; None for a policy that is not recurrent."""
        width = self.actor.hidden_width
        return torch.zeros((*shape, width), device=self.normalizer.mean.device) if width else None

    @property
    def decide_every(self) -> int:
        """Steps between two decisions. Who queries the policy holds its actions in between."""
        return self.spec.get("decide_every", 1)

    def mismatch(self, obs_width: int, space: spaces.Space[Any], num_agents: int) -> str | None:
        """Return why the policy cannot act for agents, such as "obs_width: expected 4 ..."; None if it can.

        Args:
            obs_width: Width D of their observations.
            space: Their action space.
            num_agents: Their number, which matters to a policy that distinguishes agents.
        """
        action = self.spec["action"]
        for name, expected, actual in (
            ("obs_width", obs_width, self.obs_width),
            ("action", spec_like(action, space), action),
            ("ids", num_agents if self.ids else 0, self.ids),
        ):
            if expected != actual:
                return f"{name}: expected {expected} as in this environment, got {actual}"
        return None

    def inputs(self, obs: Tensor) -> Tensor:
        """Return the network inputs of observations, see `act`."""
        obs = obs[..., : self.obs_width]
        inputs = with_ids(self.normalizer(obs), self.ids)
        return team_inputs(inputs, obs) if self.hides_dead else inputs

    @overload
    def act(
        self, obs: Tensor, mask: Any = None, greedy: bool = False, hidden_state: Tensor | None = None
    ) -> Tensor: ...

    @overload
    def act(
        self, obs: np.ndarray | Mapping[str, Any], mask: Any = None, greedy: bool = False, hidden_state: Any = None
    ) -> Any: ...

    @torch.no_grad()
    def act(self, obs: Any, mask: Any = None, greedy: bool = False, hidden_state: Any = None) -> Any:
        """Return actions for the environment.

        Args:
            obs: (..., D) tensor or NumPy array of any type of numbers; (..., n, D) for a policy that distinguishes n
                agents. An image may have its shape `(..., *shape)`, and named blocks may be a dict of these. Or a dict
                with "observation" and "action_mask", as PettingZoo's views return it.
            mask: (..., choices), of any type of numbers; True or not 0 = legal. A tuple is one mask per component.
            greedy: Return the most probable action instead of a sample.
            hidden_state: (..., H), of a recurrent policy; overwritten. The caller resets it to zero at episode starts.
                In games of turns it advances only where the agent decides or its observation has changed; the caller
                restores it elsewhere.

        Returns:
            (...) int64, (..., K) int64 or (..., K) float32, depending on the action space; NumPy for NumPy.

        Raises:
            ConfigError: A shape, mask or hidden state is missing or does not fit the policy. On a CPU also: an
                observation is NaN, or a mask has no legal action.
        """
        names = set(obs.keys()) if isinstance(obs, Mapping) else set()  # a TensorDict has no `in`
        if names and ("action_mask" in names or self.blocks.keys() - names):
            if "observation" not in names:
                expected = [*self.blocks, *(["action_mask"] if self.spec.get("has_action_mask") else [])]
                actual = format_names(sorted(map(str, names)))
                raise ConfigError(f"policy: obs: expected entries {format_names(expected)}, got {actual}")
            obs, mask = obs["observation"], obs.get("action_mask", None) if mask is None else mask
        parts = obs.values() if isinstance(obs, Mapping) else [obs]
        gives_tensors = any(isinstance(part, Tensor) for part in parts)
        obs, mask = self.flatten(obs).float(), None if mask is None else self._mask(mask)
        hidden_state = torch.from_numpy(hidden_state) if isinstance(hidden_state, np.ndarray) else hidden_state
        self._check(obs, mask, hidden_state)
        action = self._act(obs, mask, greedy, hidden_state)
        return action if gives_tensors else action.cpu().numpy()[()]  # a number for a single action

    def flatten(self, obs: Any) -> Tensor:
        """Return observations as `act` takes them, except dicts with masks, as flat rows (..., D).

        Raises:
            ConfigError: Values are no numbers, or a named block is missing or has another shape.
        """
        if not isinstance(obs, Mapping):
            values, (shape, *more_shapes) = self._tensor("obs", obs), self.blocks.values()
            return values if more_shapes or values.shape[-1:] == (self.obs_width,) else _flat(values, shape)
        if missing := sorted(self.blocks.keys() - set(obs.keys())):
            raise ConfigError(f"policy: obs: expected entries {format_names(self.blocks)}, got no {missing[0]}")
        rows: list[Tensor] = []
        for name, shape in self.blocks.items():
            values = self._tensor(f"obs: {name}", obs[name]).float()
            rows.append(_flat(values, shape))
            if rows[-1].shape[-1:] != (math.prod(shape),):
                expected = ", ".join(map(str, ("...", *shape)))
                raise ConfigError(f"policy: obs: {name}: expected ({expected}), got {tuple(values.shape)}")
            leading, actual = tuple(rows[0].shape[:-1]), tuple(rows[-1].shape[:-1])
            if actual != leading:
                first = next(iter(self.blocks))
                raise ConfigError(f"policy: obs: {name}: expected the leading axes {leading} of {first}, got {actual}")
        return torch.cat(rows, -1) if len(rows) > 1 else rows[0]

    def _tensor(self, name: str, values: Any) -> Tensor:
        if isinstance(values, Tensor):
            return values
        try:
            return torch.tensor(np.asarray(values), device=self.device)
        except (TypeError, ValueError):  # None, text, objects, a ragged list
            raise ConfigError(f"policy: {name}: expected numbers, got {shown(values)}") from None

    def _mask(self, mask: Any) -> Tensor:
        """Return a mask as a bool tensor."""
        if isinstance(mask, tuple):
            mask = torch.cat([self._tensor("mask", part) for part in mask], -1)
        mask = self._tensor("mask", mask)
        return mask if mask.dtype == torch.bool else mask != 0

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.normalizer.mean.device

    def _check(self, obs: Tensor, mask: Tensor | None, hidden_state: Tensor | None) -> None:
        """Raise ConfigError if the inputs of `act` do not fit the policy; their values are checked on a CPU only."""
        shape, width = tuple(obs.shape), self.obs_width
        if not shape or shape[-1] != width:
            block, *more_shapes = self.blocks.values()
            shaped = f" or (..., {', '.join(map(str, block))})" if not more_shapes and len(block) > 1 else ""
            shaped = f" or a dict of {format_names(self.blocks)}" if more_shapes else shaped
            hint = f"; pass obs[..., :{width}]" if shape and shape[-1] > width else ""
            raise ConfigError(f"policy: obs: expected (..., {width}){shaped}, got {shape}{hint}")
        if (hidden := self.actor.hidden_width) and (
            hidden_state is None or hidden_state.shape != (*shape[:-1], hidden)
        ):
            actual = "no hidden state" if hidden_state is None else f"{tuple(hidden_state.shape)} for obs {shape}"
            expected = "act(..., hidden_state=policy.initial_hidden_state(E, n))"
            raise ConfigError(f"recurrent policy: expected {expected} of shape (..., {hidden}), got {actual}")
        on_cpu = obs.device.type == "cpu"
        if on_cpu and bool(obs.isnan().any()):
            raise ConfigError(f"policy: obs: expected numbers, got NaN at {obs.isnan().nonzero()[0].tolist()}")
        if not isinstance(self.head, CategoricalHead):
            return
        if mask is None:
            if self.spec.get("has_action_mask"):
                raise ConfigError("policy: mask: expected the legal actions, got none; pass info['action_mask']")
            return
        sizes = self.head.sizes
        if mask.shape[-1:] != (sum(sizes),) or not _broadcasts(mask.shape[:-1], shape[:-1]):
            expected = (*shape[:-1], sum(sizes))
            raise ConfigError(f"policy: mask: expected {expected} for obs {shape}, got {tuple(mask.shape)}")
        if on_cpu and not all(bool(part.any(-1).all()) for part in mask.split(sizes, -1)):
            raise ConfigError("policy: mask: expected a legal action in each row, got a row without one")

    def _act(self, obs: Tensor, mask: Tensor | None, greedy: bool, hidden_state: Tensor | None) -> Tensor:
        action, _, remembered = self.decide(obs, mask, hidden_state, None if greedy else self.generator)
        if hidden_state is not None and remembered is not None:
            hidden_state.copy_(remembered)
        return action

    def decide(
        self, obs: Tensor, mask: Tensor | None, hidden_state: Tensor | None, stream: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return actions for the environment, the parameters of their distributions, and the next hidden states.

        Args:
            obs: (..., D).
            mask: (..., choices) bool.
            hidden_state: (..., H), not changed.
            stream: Generator of samples; None: the most probable actions.
        """
        inputs = self.inputs(obs)
        if isinstance(team := self.actor.module, Transformer):
            action, params = team.act(inputs, mask, self.head, stream)
            return self.head.to_env(action), params, None
        params, remembered = self.actor.step(inputs, hidden_state, mask)
        action = self.head.mode(params, mask) if stream is None else self.head.sample(params, stream, mask)[0]
        return self.head.to_env(action), params, remembered

    def module(self) -> GreedyPolicy:
        """Return the greedy policy as an `nn.Module` of tensors only, which shares the weights."""
        return GreedyPolicy(self)

    def seed(self, seed: int) -> None:
        """Restart the random stream of samples."""
        self.generator.manual_seed(seed)

    def save(self, path: Path) -> None:
        """Write `<path>.safetensors` and `<path>.json`."""
        write_tensors(path.with_suffix(".safetensors"), dict(self.net.state_dict()))
        write_json(path.with_suffix(".json"), {"format": FORMAT, **self.spec})

    @classmethod
    def load(cls, path: Path, device: torch.device | str = "cpu", seed: int = 0) -> Policy:
        """Read the files written by `save`; raise CheckpointError if they are damaged or do not match."""
        file = path.with_suffix(".json")
        spec = read_json(file, finite=False)  # a box may be unbounded
        actual = spec.pop("format", "no format")
        if actual not in READABLE:
            raise wrong_format(file, FORMAT, actual)
        weights = path.with_suffix(".safetensors")
        return cls._of(spec, read_tensors(weights), str(file), str(weights), device, seed)

    def state_dict(self) -> dict[str, Tensor | str]:
        """Return the weights and the specification as JSON; see `from_state`."""
        return {
            **{f"net.{name}": tensor for name, tensor in self.net.state_dict().items()},
            "spec": json.dumps(self.spec),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], device: torch.device | str = "cpu", seed: int = 0) -> Policy:
        """Return the policy saved by `state_dict`; raise CheckpointError if the state is damaged."""
        weights = {name.removeprefix("net."): value for name, value in state.items() if name.startswith("net.")}
        if not isinstance(spec := state.get("spec"), str):
            raise CheckpointError(f"policy: expected its specification as JSON in a field 'spec', got {spec!r:.80}")
        return cls._of(parse_json(spec, "policy", finite=False), weights, "policy", "policy", device, seed)

    @classmethod
    def _of(
        cls,
        spec: dict[str, Any],
        weights: Mapping[str, Any],
        shape_from: str,
        weights_from: str,
        device: torch.device | str,
        seed: int,
    ) -> Policy:
        read = read_record(PolicySpec, shape_from, spec, OPTIONAL)
        shapes = read.blocks.values()
        is_empty = any(not shape or min(shape) < 1 for shape in shapes)
        if shapes and (is_empty or sum(map(math.prod, shapes)) != read.obs_width):
            raise CheckpointError(f"{shape_from}: blocks: expected {read.obs_width} numbers, got {read.blocks}")
        check_action_spec(f"{shape_from}: action", spec["action"])
        if read.network in NETWORKS and len(read.hidden_sizes) + len(read.conv_filters) > len(weights):
            raise CheckpointError(
                f"{shape_from}: expected at most the {len(weights)} layers of {weights_from}, got more"
            )
        head = make_head(spec["action"])
        try:
            with torch.device("meta"):  # compare sizes with the weights before memory is allocated
                normalizer = ObservationNormalizer(read.obs_width, spec)
                actor = Network(actor_width(spec), head.num_params, 0.01)
        except ConfigError as error:
            raise CheckpointError(f"{shape_from}: {error}") from error
        except (RuntimeError, TypeError) as error:  # raised by torch for sizes whose product exceeds 64 bits
            raise CheckpointError(f"{shape_from}: expected sizes as in {weights_from}, got larger ones") from error
        net = nn.ModuleDict({"normalizer": normalizer, "actor": actor, "head": head})
        tensors = check_tensors(weights_from, weights, net.state_dict())
        check_finite(weights_from, tensors)
        # assigned, because `to_empty` of a meta tensor imports half of PyTorch's compiler (1 s)
        net.load_state_dict({name: tensor.clone() for name, tensor in tensors.items()}, assign=True)
        policy = cls(spec, normalizer, actor, head, seed)
        policy.net.to(device)
        policy.generator = torch.Generator(device).manual_seed(seed)
        return policy


def mask_spec(needs_mask: bool) -> dict[str, Any]:
    """Return the entries of a policy's specification for whether it needs masks."""
    return {"has_action_mask": True} if needs_mask else {}


def fit_inputs(policy: PolicyProtocol, obs: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return observations (..., D) and masks (..., C) of agents with the padding for others, without it.

    Where nothing is legal, as environments may say of agents that have left, everything is: `Policy.act` refuses it.
    """
    if not isinstance(policy, Policy):
        return obs, mask
    if mask is not None and isinstance(policy.head, CategoricalHead):
        parts = mask[..., : sum(policy.head.sizes)].split(policy.head.sizes, -1)
        mask = torch.cat([part | ~part.any(-1, keepdim=True) for part in parts], -1)
    return obs[..., : policy.obs_width], mask


def _flat(values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return values `(..., *shape)` as (..., D), and values of another shape unchanged."""
    return values.flatten(-len(shape)) if values.shape[-len(shape) :] == shape else values


def _broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Return whether a tensor of a shape broadcasts to another one."""
    pairs = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(size in (1, other) for size, other in pairs)


class GreedyPolicy(nn.Module):
    """A policy as a function of one observation per row, with its weights as parameters.

    They require no gradient; `module.requires_grad_()` changes that.
    """

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.net: nn.ModuleDict = policy.net
        self.policy: Policy = policy

    def forward(
        self, obs: Tensor, mask: Tensor | None = None, hidden_state: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Return actions and the parameters of their distributions.

        Args:
            obs: (N, D), or as `Policy.act` takes it; (N, n, D) for a policy that distinguishes n agents.
            mask: (N, choices), True = legal.
            hidden_state: (N, H), of a recurrent policy; zeros at the start of an episode.

        Returns:
            The most probable action, as from `Policy.act`; logits (N, sum of choices) without mask, action values, or
            means (N, K) before they are mapped to the box; and the next hidden state of a recurrent policy.
        """
        action, parameters, remembered = self.policy.decide(self.policy.flatten(obs), mask, hidden_state)
        return (action, parameters) if remembered is None else (action, parameters, remembered)


def freeze_policy(learner: PolicyModules) -> Policy:
    """Return a frozen copy of a learner's policy."""
    normalizer, actor, head = copy.deepcopy((learner.normalizer, learner.actor, learner.head))
    return Policy(learner.spec, normalizer, actor, head, seed=learner.generator.initial_seed())
