"""Frozen policies for evaluation, rendering and the league."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from gpu_envs.errors import CheckpointError, ConfigError
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
from trainers.models.action_heads import Head, action_text, check_action_spec, make_head
from trainers.models.networks import Network, NetworkConfig, actor_width, with_ids
from trainers.models.normalization import ObservationNormalizer

__all__ = ["FORMAT", "Policy", "PolicyModules", "PolicyProtocol", "PolicySpec", "freeze_policy"]

FORMAT = "gpu-envs policy 3"  # format of a policy's JSON file


@dataclass(frozen=True)
class PolicySpec(NetworkConfig):
    """Network and action specification of a policy, as in its JSON file."""

    obs_width: int = setting(0, ge=0)
    """Width D of the observations."""
    ids: int = setting(0, ge=0)
    """Number of agents distinguished by one-hot indices; 0: none."""
    decide_every: int = setting(1, ge=1)
    """Steps between two decisions; the action is held in between."""
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
            spec: JSON data: `NetworkConfig.spec`, "action", for a policy that distinguishes n agents "ids" = n, and for
                one that decides at every n-th step "decide_every" = n.
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
        self.ids: int = spec.get("ids", 0)
        self.generator: torch.Generator = torch.Generator(normalizer.mean.device).manual_seed(seed)

    def _summary(self) -> Summary:
        facts = {
            "observation": f"Box({self.obs_width},)",
            "action": action_text(self.spec["action"]),
            "network": f"{self.spec['network']} {'-'.join(map(str, self.spec['hidden_sizes']))}",
            "parameters": sum(each.numel() for each in self.net.parameters()),
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

    def inputs(self, obs: Tensor) -> Tensor:
        """Return the network inputs of observations, see `act`."""
        return with_ids(self.normalizer(obs[..., : self.obs_width]), self.ids)

    @torch.no_grad()
    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, hidden_state: Tensor | None = None
    ) -> Tensor:
        """Return actions for the environment.

        Args:
            obs: (..., D) with D at least the policy's own width, the rest being padding; (..., n, D) for a policy that
                distinguishes n agents.
            mask: (..., choices), True = legal.
            greedy: Return the most probable action instead of a sample.
            hidden_state: (..., H), of a recurrent policy; overwritten. The caller resets it to zero at episode starts.

        Returns:
            (...) int64, (..., K) int64 or (..., K) float32, depending on the action space.

        Raises:
            ConfigError: The policy is recurrent and `hidden_state` is missing.
        """
        if self.actor.hidden_width and hidden_state is None:
            expected = "act(..., hidden_state=policy.initial_hidden_state(E, n))"
            raise ConfigError(f"recurrent policy: expected {expected}, got no hidden state")
        params, remembered = self.actor.step(self.inputs(obs), hidden_state)
        if hidden_state is not None and remembered is not None:
            hidden_state.copy_(remembered)
        action = self.head.mode(params, mask) if greedy else self.head.sample(params, self.generator, mask)[0]
        return self.head.to_env(action)

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
        got = spec.pop("format", "no format")
        if got != FORMAT:
            raise wrong_format(file, FORMAT, got)
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
        given = {name.removeprefix("net."): value for name, value in state.items() if name.startswith("net.")}
        if not isinstance(spec := state.get("spec"), str):
            raise CheckpointError(f"policy: expected its specification as JSON in a field 'spec', got {spec!r:.80}")
        return cls._of(parse_json(spec, "policy", finite=False), given, "policy", "policy", device, seed)

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
        read = read_record(PolicySpec, shape_from, spec, optional=("ids", "decide_every"))
        check_action_spec(f"{shape_from}: action", spec["action"])
        if len(read.hidden_sizes) + len(read.conv_filters) > len(weights):
            raise CheckpointError(
                f"{shape_from}: expected at most the {len(weights)} layers of {weights_from}, got more"
            )
        head = make_head(spec["action"])
        try:
            with torch.device("meta"):  # compare sizes with those of the weights before memory is allocated
                normalizer = ObservationNormalizer(read.obs_width)
                actor = Network(actor_width(spec), head.num_params, 0.01)
        except ConfigError as error:
            raise CheckpointError(f"{shape_from}: {error}") from error
        except (RuntimeError, TypeError) as error:  # raised by torch for sizes whose product exceeds 64 bits
            raise CheckpointError(f"{shape_from}: expected sizes as in {weights_from}, got larger ones") from error
        net = nn.ModuleDict({"normalizer": normalizer, "actor": actor, "head": head})
        given = check_tensors(weights_from, weights, net.state_dict())
        check_finite(weights_from, given)
        # assigned, because `to_empty` of a meta tensor imports half of PyTorch's compiler (1 s)
        net.load_state_dict({name: tensor.clone() for name, tensor in given.items()}, assign=True)
        policy = cls(spec, normalizer, actor, head, seed)
        policy.net.to(device)
        policy.generator = torch.Generator(device).manual_seed(seed)
        return policy


def freeze_policy(learner: PolicyModules) -> Policy:
    """Return a frozen copy of a learner's policy."""
    normalizer, actor, head = copy.deepcopy((learner.normalizer, learner.actor, learner.head))
    return Policy(learner.spec, normalizer, actor, head, seed=learner.generator.initial_seed())
