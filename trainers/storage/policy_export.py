"""Policies as programs of torch.export: to run in other programs and languages, without this library."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from gpu_envs.errors import GpuEnvsError
from trainers.categories import CategoricalHead
from trainers.policy import Policy

CHECKED = (1, 2, 257)
"""Batch sizes that a written program is compared with its policy on."""


class _Greedy(nn.Module):
    """A policy as a function of one observation per row."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.net, self.policy = policy.net, policy

    def forward(self, obs: Tensor, mask: Tensor | None = None, memory: Tensor | None = None) -> tuple[Tensor, ...]:
        """Greedy action, what describes the distribution it is taken from, and what is remembered, if anything."""
        actor, head = self.policy.actor, self.policy.head
        parameters, remembered = actor.step(self.policy.inputs(obs), memory)
        action = head.to_env(head.mode(parameters, mask))
        return (action, parameters) if remembered is None else (action, parameters, remembered)


def export_policy(policy: Policy, path: Path, masked: bool = False) -> str:
    """Writes a policy on the CPU for `torch.export.load` and compares what was written with it.

    The program takes obs (N, D), for any N; mask= (N, choices) bool, if actions can be illegal; and memory= (N, H),
    zeros where an episode begins, if the policy remembers. All are (N, n, ...) for a policy that tells its n agents
    apart, and so is what it returns: the greedy action, as `Policy.act` gives it; what the policy's head makes a
    distribution of, which is logits (N, sum of choices), no mask applied, action values as the network gives them, or
    means (N, K) before they are mapped to the box, whose log standard deviation is the program's parameter
    "net.head.log_std"; and the memory for the next step, if there is one.

    Args:
        policy: What to write.
        path: A file that ends in .pt2.
        masked: The program takes a mask of legal actions.

    Returns:
        Its inputs and outputs in words.

    Raises:
        GpuEnvsError: The written program answers otherwise than the policy.
    """
    batch = {0: torch.export.Dim("batch")}
    obs, rest = _inputs(policy, 3, masked, torch.Generator().manual_seed(0))
    shapes = dict.fromkeys(("obs", *rest), batch)
    with torch.no_grad():
        program = torch.export.export(_Greedy(policy).eval(), (obs,), rest, dynamic_shapes=shapes, strict=False)
    program.example_inputs = None  # they would be pickled
    torch.export.save(program, path)
    _compare(policy, path, masked)
    team = (policy.ids,) if policy.ids else ()
    kind = str(policy.head.action_dtype).removeprefix("torch.")
    takes = ", ".join(f"{name} {_words(value.shape[1:])}" for name, value in {"obs": obs, **rest}.items())
    gives = ", memory" if "memory" in rest else ""
    return f"{takes} -> action {_words((*team, *policy.head.action_shape))} {kind}, parameters{gives}"


def _words(shape: Sequence[int]) -> str:
    """The shape of N rows, such as (N, 3)."""
    return f"({', '.join(('N', *map(str, shape)))})"


def _compare(policy: Policy, path: Path, masked: bool) -> None:
    """Plays the written program beside its policy."""
    written, generator = torch.export.load(path).module(), torch.Generator().manual_seed(1)
    for size in CHECKED:
        obs, rest = _inputs(policy, size, masked, generator)
        action, _, *memory = written(obs, **rest)
        expected = policy.act(obs, rest.get("mask"), greedy=True, memory=rest.get("memory"))  # overwrites its memory
        same = [(action, expected), *((each, rest["memory"]) for each in memory)]
        if any(got.dtype != wanted.dtype or not torch.allclose(got, wanted, atol=1e-6) for got, wanted in same):
            raise GpuEnvsError(f"{path}: the exported program answers otherwise than its policy: do not use it")


def _inputs(policy: Policy, size: int, masked: bool, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
    """Random observations, masks with at least one legal action each, and memories, as far as there are any."""
    rows = (size, policy.ids) if policy.ids else (size,)
    obs, rest = torch.randn((*rows, policy.obs_width), generator=generator), {}
    if masked:
        assert isinstance(policy.head, CategoricalHead)
        choices = sum(policy.head.sizes)
        always = torch.randint(choices, (*rows, 1), generator=generator)
        rest["mask"] = (torch.rand((*rows, choices), generator=generator) < 0.5).scatter(-1, always, True)
    memory = policy.memory(*rows)
    if memory is not None:
        rest["memory"] = torch.randn(memory.shape, generator=generator)
    return obs, rest
