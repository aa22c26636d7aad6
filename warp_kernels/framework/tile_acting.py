"""Acting on a GPU with networks too wide for the registers of a thread: a block computes the outputs of a tile of rows.

A row is an agent of a world. Rows are numbered agent by agent, so that a tile's rows mostly have one policy. A block
computes its rows once for every policy that they have. Matchups need no sorting, and worlds may draw them at any step.
"""

from functools import cache
from typing import Any

import warp as wp

from warp_kernels.episode import IO
from warp_kernels.framework.policies import NO_POLICY, Policies, decides_of, policy_of
from warp_kernels.generated_source import compiled
from warp_kernels.networks.activations import vector
from warp_kernels.networks.mlp import Mlp
from warp_kernels.networks.tile_code import (
    buffer_lines,
    forward_lines,
    indented,
    normalizer_lines,
    own_elements,
    row_lines,
    weight_lines,
)
from warp_kernels.networks.tile_memory import BLOCK_DIM, tile_sizes
from warp_kernels.networks.tiles import tile_functions, tile_module

_NOBODY = 2**31 - 1
"""Policy of rows that need no outputs, greater than all policies."""


@cache
def build_tile_outputs(mlp: Mlp, tile_rows: int, shared: bool, turn_based: bool, block_dim: int = BLOCK_DIM) -> Any:
    """Build the kernel that computes the outputs of all agents with policies of one kind, without compiling it.

    A block computes an item, a tile of rows of the agents in a range. Outputs of agents that do not decide, and of
    those with policies of other kinds, keep their values. Arguments: first, end, stride; the kind; first and last
    agent; io; and policies, whose ``outputs`` are the result.

    Args:
        mlp: Sizes of the networks.
        tile_rows: Number of rows of a tile, see :func:`~warp_kernels.networks.tile_memory.fits`.
        shared: Whether an agent has the same policy in all worlds.
        turn_based: Whether agents take turns.
        block_dim: Threads of a block.
    """
    sizes, width = tile_sizes(mlp, tile_rows), mlp.head_width
    lines = [
        "block, lane = wp.tid()",
        *buffer_lines(mlp, tile_rows, sizes),
        f"owners = wp.tile_zeros(shape=({tile_rows},), dtype=int, storage='shared')",
        "envs = io.alive.shape[0]",
        "agents = io.alive.shape[1]",
        "count = (end_agent - first_agent) * envs",
        "x = wp.array(ptr=io.obs.ptr, shape=(envs * agents, io.obs.shape[2]), dtype=float)",
        "item = first + block",
        "while item < end:",
        *indented(
            f"at = item * {tile_rows}",
            *row_lines(tile_rows, "row_of(wp.min(at + {row}, count - 1), first_agent, envs, agents)"),
            *row_lines(tile_rows, "owner_of(io, policies, kind, rows[{row}], agents, at + {row} < count)", "owners"),
            "policy = int(wp.tile_min(owners)[0])",
            f"while policy < {_NOBODY}:",
            *indented(
                "base = policies.addresses[policy]",
                *weight_lines(mlp, []),
                *normalizer_lines(mlp),
                *forward_lines(mlp, tile_rows, sizes, True),
                *own_elements(
                    "c",
                    str(tile_rows * width),
                    f"if owners[c // {width}] == policy:",
                    f"    policies.outputs[rows[c // {width}], c % {width}] = outputs[c // {width}, c % {width}]",
                ),
                "barrier[0] = 0",
                *row_lines(tile_rows, f"wp.where(owners[{{row}}] == policy, {_NOBODY}, owners[{{row}}])", "owners"),
                "policy = wp.tile_min(owners)[0]",
            ),
            "item += stride",
        ),
    ]
    parameters = (
        "first: int, end: int, stride: int, kind: int, first_agent: int, end_agent: int, io: IO, policies: Policies"
    )
    constants = tile_functions(mlp) | {
        "IO": IO,
        "Policies": Policies,
        "row_of": _row_of,
        "owner_of": _owner_of(shared, turn_based),
    }
    module = tile_module("tile_outputs", f"{mlp.key} {tile_rows} {shared} {turn_based} {block_dim}", block_dim)
    return compiled("tile_outputs", parameters, lines, constants, f'wp.kernel(module="{module}", name="tile_outputs")')


@wp.func
def _row_of(number: int, first_agent: int, envs: int, agents: int):
    agent = number // envs
    return (number - agent * envs) * agents + first_agent + agent


def _owner_of(shared: bool, turn_based: bool) -> Any:
    """Build the function that returns the policy of a row, if it is of a kind and the agent decides."""
    of_agent, decides = policy_of(shared), decides_of(turn_based)

    @wp.func
    def owner(io: IO, policies: Policies, kind: int, row: int, agents: int, counts: bool):
        result = int(_NOBODY)
        env = row // agents
        agent = row - env * agents
        if counts and decides(io, env, agent):
            policy = of_agent(policies, env, agent)
            if policy != NO_POLICY:
                if policies.kinds[policy] == kind:
                    result = policy
        return result

    return owner


def read_outputs(mlp: Mlp) -> Any:
    """Build ``outputs_of(io, policies, policy, row)``, which returns the outputs of a row that a block has computed."""
    V = vector(mlp.head_width)

    @wp.func(inline=True)
    def outputs_of(io: IO, policies: Policies, policy: int, row: int):
        offset = wp.uint64(row) * wp.uint64(policies.outputs.shape[1] * 4)
        outputs = wp.array(ptr=policies.outputs.ptr + offset, shape=(1,), dtype=V)
        return outputs[0]

    return outputs_of
