"""The four verbs that every learning algorithm offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from gpu_envs.errors import CheckpointError
from trainers.files import check_finite, check_tensors
from trainers.policy import Policy
from trainers.rollout import Rollout, Transition

State = dict[str, Tensor | int | float | str]
"""What a learner saves, flat: tensors go to safetensors, the rest to JSON."""


def part_of(state: State, prefix: str) -> dict[str, Any]:
    """What stands in a state below a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def moved(state: State, device: torch.device | str) -> dict[str, Any]:
    """A state with its tensors on a device."""
    return {name: value.to(device) if isinstance(value, Tensor) else value for name, value in state.items()}


Central = Literal["state", "joint"] | None  # see Learner.central


class Deck:
    """The rows, or sequences, of a batch, from which an update deals its minibatches."""

    known: int
    """Decisions to learn from, on every rank."""
    most: int
    """Minibatches that can be dealt out at most."""
    count: Tensor | float | None = None
    """What losses on the whole batch divide sums by, see `trainers.nets.masked_mean`."""

    def __init__(self, batch: dict[str, Tensor], descent: Descent) -> None:
        """Counts what is there; every rank draws from its own."""
        valid, self.size, self.device = batch.get("valid"), batch["obs"].shape[0], batch["obs"].device
        self.known = descent.least(self.size if valid is None else int(valid.sum()))
        self.most = descent.least(self.size)

    def deal(self, number: int, generator: torch.Generator) -> list[tuple[Tensor, Tensor | float | None]]:
        """Shuffles all rows and deals them out to minibatches: which rows (B,), and what losses on them divide by."""
        order = torch.randperm(self.size, generator=generator, device=self.device)
        return [(drawn, None) for drawn in order.tensor_split(number)]


class Descent:
    """How learners follow their gradients, and agree where several processes (ranks) learn one policy together.

    This one is for a single process. Ranks stay equal as long as they make the same gradient steps: let `mean` settle
    whatever decides about them. `trainers.lightning` has one for ranks that learn each from worlds and minibatches of
    its own, `trainers.sharding` one for ranks that do together what one process would.
    """

    def __call__(self, optimizer: torch.optim.Optimizer, loss: Tensor, max_norm: float | None = None) -> Tensor:
        """One gradient step of all parameters of an optimiser.

        Args:
            optimizer: Made by the learner, one of its `optimizers`.
            loss: One element.
            max_norm: The gradient, the ranks' average, is scaled down to this global norm; None: as it is.

        Returns:
            The norm before that, one element.
        """
        optimizer.zero_grad(set_to_none=True)
        self.backward(loss)
        parameters = list(_parameters(optimizer))
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        self.average(gradients)
        norm = nn.utils.get_total_norm(gradients)
        if max_norm is not None:
            nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
        self.step(optimizer)
        return norm

    def backward(self, loss: Tensor) -> None:
        """Computes gradients of a loss, a scalar."""
        loss.backward()

    def average(self, gradients: list[Tensor]) -> None:
        """Gives every rank the mean of all ranks' gradients, of any shapes, in place."""

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Follows the gradients."""
        optimizer.step()

    def sum(self, values: Tensor) -> Tensor:
        """Sums over all ranks, of any shape, the same tensor on each: for statistics that all ranks share."""
        return values

    def mean(self, values: Tensor) -> Tensor:
        """Means over all ranks, of any shape, the same tensor on each: for what decides about gradient steps."""
        return values

    def least(self, count: int) -> int:
        """The smallest count of all ranks: for rows, which differ between them."""
        return count

    def count(self, where: Tensor) -> Tensor | None:
        """What losses on the rows of a minibatch divide sums by, see `trainers.nets.masked_mean`; None: by their own.

        `where` (...) are those of this rank that are learned from.
        """
        return None

    def deck(self, batch: dict[str, Tensor], rollout: Rollout) -> Deck:
        """What to deal minibatches from, of a batch of a rollout, tensors led by rows, (B, ...)."""
        return Deck(batch, self)

    def normalized(self, values: Tensor) -> Tensor:
        """Values (N,) of rows with mean 0 and standard deviation 1."""
        if values.numel() == 0:
            return values
        return (values - values.mean()) / (values.std(correction=0) + 1e-8)

    def variance(self, values: Tensor) -> Tensor:
        """Of values (N,) of rows."""
        return values.var(correction=0)

    def in_time(self, places: Tensor, values: Tensor) -> Tensor:
        """Values (N, ...) found at places (N,) of a rollout's steps and worlds, T * E flat, in their order."""
        return values


ALONE = Descent()
"""In a process by itself."""


def linear(start: float, end: float, progress: float) -> float:
    """Goes from `start` to `end` while `progress` goes from 0 to 1, and stays there."""
    return start + min(progress, 1.0) * (end - start)


class Learner(Protocol):
    """Learns one policy, shared by n agents in E worlds, from rollouts of fixed length.

    The trainer calls `act` and `observe` in turn, a rollout's length of times, and then `update`. None of the first
    two may read from the device.
    """

    central: Central
    """What its critic sees of the whole world: "state" is the global state; "joint" all agents' padded observations,
    (E, A * D) flat, and their actions; None nothing. An attribute of the class, or where settings decide, of them."""
    net: nn.Module
    """Everything it has learned, normaliser included: what has to stay finite."""
    optimizers: dict[str, torch.optim.Optimizer]
    """By name."""
    generator: torch.Generator
    """All its randomness but that of the initial weights."""
    rollout: Rollout
    """What `act` and `observe` store."""
    descent: Descent
    """Makes all its gradient steps; `ALONE` unless a trainer that learns on several ranks puts its own there."""

    def act(
        self,
        obs: Tensor,
        mask: Tensor | None = None,
        to_move: Tensor | None = None,
        state: Tensor | None = None,
    ) -> Tensor:
        """Actions for the environment.

        Args:
            obs: (E, n, D).
            mask: (E, n, choices) bool, True = legal; None: all are.
            to_move: (E, n) bool, whose turn it is; None: all agents move at every step.
            state: (E, S), if it asked for one.

        Returns:
            (E, n) or (E, n, K).
        """
        ...

    def observe(self, transition: Transition) -> None:
        """Stores what came of the actions that the last `act` gave."""
        ...

    def update(self) -> dict[str, Tensor]:
        """Learns from the rollout and forgets it; returns metrics, one-element tensors on the device."""
        ...

    def policy(self) -> Policy:
        """A frozen copy of what has been learned so far."""
        ...

    def state_dict(self) -> State:
        """All that a continuation needs, between two rollouts."""
        ...

    def load_state_dict(self, state: State) -> None:
        """Continues from `state_dict`; raises CheckpointError where it does not fit."""
        ...


def saved(
    net: nn.Module, optimizers: Mapping[str, torch.optim.Optimizer], generator: torch.Generator, **counters: int | float
) -> State:
    """What every learner saves: networks, optimisers' moments by name, generator and counters."""
    state: State = {f"net.{name}": tensor for name, tensor in net.state_dict().items()}
    for which, optimizer in optimizers.items():
        for i, parameter in enumerate(_parameters(optimizer)):
            for name, tensor in optimizer.state[parameter].items():
                state[f"{which}.{i}.{name}"] = tensor
    return {**state, "generator": generator.get_state(), **counters}


def restore(
    state: State,
    net: nn.Module,
    optimizers: Mapping[str, torch.optim.Optimizer],
    generator: torch.Generator,
    *counters: str,
) -> dict[str, Any]:
    """Puts back what `saved` gave and returns the counters; CheckpointError names the first thing that does not fit."""
    check_finite("learner state net", part_of(state, "net."))
    net.load_state_dict(check_tensors("learner state net", part_of(state, "net."), net.state_dict()))
    for which, optimizer in optimizers.items():
        for i, parameter in enumerate(_parameters(optimizer)):
            moments = part_of(state, f"{which}.{i}.")
            own = {name: parameter for name, value in moments.items() if isinstance(value, Tensor) and value.dim()}
            check_tensors(f"learner state {which}.{i}", moments, own)
            check_finite(f"learner state {which}.{i}", moments)
            # Adam keeps its count of steps on the host unless it is fused, or captured
            optimizer.state[parameter] = {
                name: value.to(parameter.device if value.dim() or _fused(optimizer) else "cpu", copy=True)
                for name, value in moments.items()
                if isinstance(value, Tensor)
            }
    for name in counters:
        if not isinstance(state.get(name), int | float):
            raise CheckpointError(f"learner state {name}: expected a number, got {state.get(name)!r:.80}")
    restore_generator("learner state generator", generator, state.get("generator"))
    return {name: state[name] for name in counters}


def restore_generator(where: str, generator: torch.Generator, stream: Any) -> None:
    """Continue a random stream from what `get_state` of its generator gave; CheckpointError if it is something else."""
    if not isinstance(stream, Tensor):
        raise CheckpointError(f"{where}: expected a tensor, got nothing")
    if stream.shape != (own := generator.get_state()).shape:
        wanted, got = own.numel(), stream.numel()
        raise CheckpointError(
            f"{where}: expected {wanted} bytes as on {generator.device.type}, got {got}: "
            "a run resumes on the type of device it began on"
        )
    try:
        generator.set_state(stream.cpu())
    except (RuntimeError, TypeError) as error:
        raise CheckpointError(f"{where}: expected a state of torch's generator, got another") from error


def _parameters(optimizer: torch.optim.Optimizer) -> Iterable[Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def _fused(optimizer: torch.optim.Optimizer) -> bool:
    return bool(optimizer.defaults.get("fused") or optimizer.defaults.get("capturable"))
