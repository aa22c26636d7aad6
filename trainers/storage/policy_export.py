"""Export policies as programs of torch.export or ONNX, which run in other programs without this library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError, GpuEnvsError, missing_extra, packages
from trainers.models.action_heads import CategoricalHead
from trainers.models.networks import NETWORKS, error_line
from trainers.models.policy import Policy

CHECKED = (1, 2, 257)
"""Batch sizes for the comparison of an exported program with its policy."""
SUFFIXES = (".pt2", ".onnx")
"""Suffixes of the two formats."""


def export_policy(policy: Policy, path: Path, masked: bool = False) -> str:
    """Write a policy as a program for `torch.export.load` or for ONNX, and compare the program with the policy.

    Inputs are obs (N, D) for any N, mask= (N, choices) bool if actions can be illegal, and hidden_state= (N, H), zeros
    at the start of an episode, if the policy is recurrent. A policy with agent ids has tensors (N, n, ...) for its n
    agents.

    Outputs are "action", "parameters" and, of a recurrent policy, "next_hidden_state", see
    :class:`trainers.models.policy.GreedyPolicy`. ONNX programs name them so. The log standard deviation is the
    parameter "net.head.log_std" of the program of torch.export.

    Args:
        policy: The policy, on the CPU.
        path: A file that ends in .pt2, or in .onnx.
        masked: Whether the program takes a mask of legal actions.

    Returns:
        Inputs and outputs of the program as text.

    Raises:
        ConfigError: The file has another suffix, or torch.export does not support the network, "module:Name".
        MissingExtraError: ONNX is not installed.
        GpuEnvsError: The exported program returns different actions than the policy.
    """
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"export: expected a file name that ends in {' or '.join(SUFFIXES)}, got {path}")
    batch = {0: torch.export.Dim("batch")}
    obs, inputs = _inputs(policy, 3, masked, torch.Generator().manual_seed(0))
    shapes = dict.fromkeys(("obs", *inputs), batch)
    with torch.no_grad():
        module = policy.module().eval()
        try:
            program = torch.export.export(module, (obs,), inputs, dynamic_shapes=shapes, strict=False)
        except Exception as error:  # of any class, for code of any kind
            if (name := policy.spec["network"]) in NETWORKS:
                raise
            raise ConfigError(
                f"export: expected a network that torch.export supports, got {name!r}: {error_line(error)}"
            ) from error
    program.example_inputs = None  # they would be saved as a pickle
    if path.suffix == ".onnx":
        run = _write_onnx(program, path, "hidden_state" in inputs)
    else:
        torch.export.save(program, path)
        run = torch.export.load(path).module()
    _compare(policy, path, masked, run)
    team = (policy.ids,) if policy.ids else ()
    kind = str(policy.head.action_dtype).removeprefix("torch.")
    takes = ", ".join(f"{name} {_words(value.shape[1:])}" for name, value in {"obs": obs, **inputs}.items())
    gives = ", next_hidden_state" if "hidden_state" in inputs else ""
    return f"{takes} -> action {_words((*team, *policy.head.action_shape))} {kind}, parameters{gives}"


def _words(shape: Sequence[int]) -> str:
    """Return the shape of N rows as text, such as (N, 3)."""
    return f"({', '.join(('N', *map(str, shape)))})"


def _write_onnx(program: torch.export.ExportedProgram, path: Path, recurrent: bool) -> Callable[..., Any]:
    """Write a program as ONNX, and return a function that runs the file."""
    names = ["action", "parameters", "next_hidden_state"][: 3 if recurrent else 2]
    try:
        import onnx.reference  # pyright: ignore[reportMissingImports]

        torch.onnx.export(program, (), path, output_names=names, dynamo=True, external_data=False, verbose=False)
    except ModuleNotFoundError as error:
        raise missing_extra(error, "an export to ONNX", ("onnx", "onnxscript"), packages("onnx")) from None
    evaluator = onnx.reference.ReferenceEvaluator(str(path))

    def run(obs: Tensor, **inputs: Tensor) -> list[Tensor]:
        feeds = {name: tensor.numpy() for name, tensor in {"obs": obs, **inputs}.items()}
        return [torch.from_numpy(output) for output in evaluator.run(names, feeds)]

    return run


def _compare(policy: Policy, path: Path, masked: bool, run: Callable[..., Any]) -> None:
    """Raise GpuEnvsError if the exported program and its policy return different values."""
    generator = torch.Generator().manual_seed(1)
    for size in CHECKED:
        obs, inputs = _inputs(policy, size, masked, generator)
        action, _, *hidden_state = run(obs, **inputs)
        # act overwrites the hidden state
        expected = policy.act(obs, inputs.get("mask"), greedy=True, hidden_state=inputs.get("hidden_state"))
        same = [(action, expected), *((state, inputs["hidden_state"]) for state in hidden_state)]
        if any(x.dtype != y.dtype or not torch.allclose(x, y, atol=1e-6) for x, y in same):
            raise GpuEnvsError(f"{path}: the exported program returns other values than its policy; do not use it")


def _inputs(policy: Policy, size: int, masked: bool, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
    """Return random observations, and masks and hidden states if the policy takes them."""
    rows = (size, policy.ids) if policy.ids else (size,)
    obs, inputs = torch.randn((*rows, policy.obs_width), generator=generator), {}
    if masked:
        assert isinstance(policy.head, CategoricalHead)
        choices = sum(policy.head.sizes)
        always = torch.randint(choices, (*rows, 1), generator=generator)
        inputs["mask"] = (torch.rand((*rows, choices), generator=generator) < 0.5).scatter(-1, always, True)
    hidden_state = policy.initial_hidden_state(*rows)
    if hidden_state is not None:
        inputs["hidden_state"] = torch.randn(hidden_state.shape, generator=generator)
    return obs, inputs
