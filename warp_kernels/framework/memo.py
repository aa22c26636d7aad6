"""Memo of networks on a CPU: the outputs of a policy for an observation are computed once per launch.

Observations of turn-based games repeat: Kuhn poker has six per seat. An entry of the table is found by a hash of
policy and observation, and replaces the entry before. Outputs depend on nothing else, so results do not change.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import warp as wp

from warp_kernels.framework.policies import PolicyKind
from warp_kernels.networks.activations import vector
from warp_kernels.networks.mlp import Mlp, padded

__all__ = ["MAX_ENTRIES", "Memo", "entry_size", "memo_entries", "memo_of"]

MAX_ENTRIES = 8192
"""Largest number of entries of a table."""


@dataclass(frozen=True)
class Memo:
    """Warp functions of a table. It consists of ``entries``, (N, S) float32, and their ``owners``, (N,) int32."""

    find: Any
    """``find(row, policy, entries, owners) -> int``: the entry of the observation at the address ``row``.

    It is ``-1 - n`` if entry n does not have it."""
    read: Any
    """``read(entry, entries) -> V``: the outputs of an entry."""
    write: Any
    """``write(entry, row, policy, outputs, entries, owners)``: replace an entry."""


def entry_size(kinds: Sequence[PolicyKind]) -> int:
    """Return the length of an entry S for policies of several kinds: an observation, and the outputs."""
    return max(padded(kind.mlp.inputs) + kind.mlp.head_width for kind in kinds)


def memo_entries(num_envs: int) -> int:
    """Return the number of entries for a number of worlds."""
    return min(8 * num_envs, MAX_ENTRIES)


# The bits of 0 and 1, frequent observations, differ in the upper half only, hence the shift.
_FIND = """
    const unsigned int factors[{inputs}] = {{{factors}}};
    const unsigned int* own = (const unsigned int*)row;
    unsigned int hash = (unsigned int)policy * {policy_factor}u;
    for (int i = 0; i < {inputs}; ++i) hash += (own[i] ^ own[i] >> 16) * factors[i];
    const int entry = (int)(((unsigned long long)hash * (unsigned long long)entries.shape[0]) >> 32);
    if (owners.data[entry] != policy + 1) return -1 - entry;
    const unsigned int* known = (const unsigned int*)(entries.data + (long long)entry * {size});
    unsigned int differs = 0;
    for (int i = 0; i < {inputs}; ++i) differs |= own[i] ^ known[i];
    return differs ? -1 - entry : entry;
"""
_READ = """
    const wp::float32* known = entries.data + (long long)entry * {size} + {outputs};
    wp::vec_t<{length}, wp::float32> z;
    for (int i = 0; i < {length}; ++i) z.c[i] = known[i];
    return z;
"""
_WRITE = """
    const wp::float32* own = (const wp::float32*)row;
    wp::float32* known = entries.data + (long long)entry * {size};
    for (int i = 0; i < {inputs}; ++i) known[i] = own[i];
    for (int i = 0; i < {length}; ++i) known[{outputs} + i] = o.c[i];
    owners.data[entry] = policy + 1;
"""


@cache
def memo_of(mlp: Mlp, size: int) -> Memo:
    """Build the functions for networks of one kind and entries of length ``size``."""
    V, draw = vector(mlp.head_width), random.Random(0)
    factor, *factors = (draw.getrandbits(32) | 1 for _ in range(1 + mlp.inputs))
    sizes = {"inputs": mlp.inputs, "outputs": padded(mlp.inputs), "length": mlp.head_width, "size": size}
    sizes |= {"factors": ", ".join(f"{each}u" for each in factors), "policy_factor": factor}

    @wp.func_native(_FIND.format(**sizes))
    def find(row: wp.uint64, policy: int, entries: wp.array2d(dtype=float), owners: wp.array(dtype=int)) -> int: ...

    @wp.func_native(_READ.format(**sizes))
    def read(entry: int, entries: wp.array2d(dtype=float)) -> V: ...

    @wp.func_native(_WRITE.format(**sizes))
    def write(
        entry: int, row: wp.uint64, policy: int, o: V, entries: wp.array2d(dtype=float), owners: wp.array(dtype=int)
    ): ...

    return Memo(find, read, write)
