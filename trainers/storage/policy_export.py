"""Export policies as torch.export programs, which run in other programs and languages without this library."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from gpu_envs.errors import GpuEnvsError
from trainers.models.discrete_heads import CategoricalHead
from trainers.models.policy import Policy

__all__ = ["CHECKED", "export_policy"]

CHECKED = (1, 2, 257)
"""Batch sizes for the comparison of an exported program with its policy."""


class _Greedy(nn.Module):
    """A policy as a function of one observation per row."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.net, self.policy = policy.net, policy

    def forward(
        self, obs: Tensor, mask: Tensor | None = None, hidden_state: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Return the greedy action, the parameters of its distribution, and the hidden state of a recurrent policy."""
        actor, head = self.policy.actor, self.policy.head
        parameters, remembered = actor.step(self.policy.inputs(obs), hidden_state)
        action = head.to_env(head.mode(parameters, mask))
        return (action, parameters) if remembered is None else (action, parameters, remembered)


def export_policy(policy: Policy, path: Path, masked: bool = False) -> str:
    """Write a policy as a program for `torch.export.load`, and compare the program with the policy.

    Inputs are obs (N, D) for any N, mask= (N, choices) bool if actions can be illegal, and hidden_state= (N, H), zeros
    at the start of an episode, if the policy is recurrent. A policy with agent ids has tensors (N, n, ...) for its n
    agents.

    Outputs are the greedy action, as returned by `Policy.act`, the parameters of the distribution, and the hidden
    state for the next step. The parameters are logits (N, sum of choices) without mask, action values, or means (N, K)
    before they are mapped to the box. The log standard deviation is the program's parameter "net.head.log_std".

    Args:
        policy: The policy, on the CPU.
        path: A file that ends in .pt2.
        masked: Whether the program takes a mask of legal actions.

    Returns:
        Inputs and outputs of the program as text.

    Raises:
        GpuEnvsError: The exported program returns different actions than the policy.
    """
    batch = {0: torch.export.Dim("batch")}
    obs, rest = _inputs(policy, 3, masked, torch.Generator().manual_seed(0))
    shapes = dict.fromkeys(("obs", *rest), batch)
    with torch.no_grad():
        program = torch.export.export(_Greedy(policy).eval(), (obs,), rest, dynamic_shapes=shapes, strict=False)
    program.example_inputs = None  # they would be saved as a pickle
    torch.export.save(program, path)
    _compare(policy, path, masked)
    team = (policy.ids,) if policy.ids else ()
    kind = str(policy.head.action_dtype).removeprefix("torch.")
    takes = ", ".join(f"{name} {_words(value.shape[1:])}" for name, value in {"obs": obs, **rest}.items())
    gives = ", hidden_state" if "hidden_state" in rest else ""
    return f"{takes} -> action {_words((*team, *policy.head.action_shape))} {kind}, parameters{gives}"


def _words(shape: Sequence[int]) -> str:
    """Return the shape of N rows as text, such as (N, 3)."""
    return f"({', '.join(('N', *map(str, shape)))})"


def _compare(policy: Policy, path: Path, masked: bool) -> None:
    """Raise GpuEnvsError if the exported program and its policy return different values."""
    written, generator = torch.export.load(path).module(), torch.Generator().manual_seed(1)
    for size in CHECKED:
        obs, rest = _inputs(policy, size, masked, generator)
        action, _, *hidden_state = written(obs, **rest)
        # act overwrites the hidden state
        expected = policy.act(obs, rest.get("mask"), greedy=True, hidden_state=rest.get("hidden_state"))
        same = [(action, expected), *((each, rest["hidden_state"]) for each in hidden_state)]
        if any(got.dtype != wanted.dtype or not torch.allclose(got, wanted, atol=1e-6) for got, wanted in same):
            raise GpuEnvsError(f"{path}: the exported program returns other values than its policy; do not use it")


def _inputs(policy: Policy, size: int, masked: bool, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
    """Return random observations, and masks and hidden states if the policy takes them."""
    rows = (size, policy.ids) if policy.ids else (size,)
    obs, rest = torch.randn((*rows, policy.obs_width), generator=generator), {}
    if masked:
        assert isinstance(policy.head, CategoricalHead)
        choices = sum(policy.head.sizes)
        always = torch.randint(choices, (*rows, 1), generator=generator)
        rest["mask"] = (torch.rand((*rows, choices), generator=generator) < 0.5).scatter(-1, always, True)
    hidden_state = policy.initial_hidden_state(*rows)
    if hidden_state is not None:
        rest["hidden_state"] = torch.randn(hidden_state.shape, generator=generator)
    return obs, rest
