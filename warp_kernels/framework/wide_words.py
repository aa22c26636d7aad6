"""Words of 8 and 16 bytes on a GPU, which loads and stores them as fast as 4 bytes; CPUs run the same code as without.

A compiler joins accesses to adjacent numbers if it knows that they start at a multiple of the word, and that nothing
between them refers to the same memory. Tensors start at multiples of `ALIGNMENT`, which ``gpu_envs`` checks. Rows of
observations are written to registers first.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import warp as wp

from warp_kernels import episode
from warp_kernels.generated_source import compiled
from warp_kernels.rules import Rules

ALIGNMENT = 16
"""Addresses of tensors on a GPU are multiples of this [bytes]."""
ON_GPU = "defined(__CUDA_ARCH__)"
"""Condition of C++ under which words are wide."""
MAX_WIDTH = 32
"""Widest row of observations that is written to registers first. Wider ones need many, or are put on the stack."""

_ALIGNED = """
#if {on_gpu}
    values.data = (decltype(values.data))(unsigned long long)__builtin_assume_aligned((void*)values.data, {alignment});
    {size}
#endif
    return values;
"""
_ROW_OR_OBS = """
#if {on_gpu}
    wp::array_t<wp::float32> view(row.c, 1, 1, {width});
    view.strides[0] = 0;
    view.strides[1] = 0;
    return view;
#else
    return obs;
#endif
"""
_PUT = """
#if {on_gpu}
    wp::float32* target = (wp::float32*)__builtin_assume_aligned(&wp::index(obs, env, agent, 0), {word});
    for (int i = 0; i < {width}; ++i) target[i] = row.c[i];
#endif
"""
_COPY = """
#if {on_gpu}
    struct alignas({word}) Word {{ wp::float32 numbers[{word} / 4]; }};
    const Word* read = (const Word*)source;
    Word* write = (Word*)target;
    #pragma unroll 4
    for (int i = 0; i < {count}; ++i) write[i] = read[i];
#else
    const wp::float32* __restrict__ read = (const wp::float32*)source;
    wp::float32* __restrict__ write = (wp::float32*)target;
    for (int i = 0; i < count; ++i) write[i] = read[i];
#endif
"""


def word_of(width: int) -> int:
    """Return the largest word [bytes] that divides rows of so many float32: 16, 8 or 4."""
    return next(word for word in (ALIGNMENT, 8, 4) if width * 4 % word == 0)


def copy_of(width: int) -> Any:
    """Build ``copy(source, target, count)``, which copies ``count`` float32, the numbers of rows of this width.

    The addresses are those of rows of tensors. Loops over the columns of Warp's arrays copy them one by one on a CPU.
    """
    return _copy_of(width, ON_GPU)


@cache
def _copy_of(width: int, on_gpu: str) -> Any:
    word = word_of(width) if width else 4  # 0: a width that the rules do not know
    count = width * 4 // word or "count"

    @wp.func_native(_COPY.format(word=word, count=count, on_gpu=on_gpu))
    def copy(source: wp.uint64, target: wp.uint64, count: int): ...

    return copy


def aligned(struct: Any, sizes: Mapping[str, int] | None = None) -> Any:
    """Build ``aligned(arrays) -> arrays`` for a struct, which tells the compiler that all arrays are aligned."""
    lines, constants = [], {"Struct": struct}
    for name, var in struct.vars.items():
        if hasattr(var.type, "ndim"):
            constants[f"align_{name}"] = _aligned_array(
                var.type.dtype, var.type.ndim, (sizes or {}).get(name, 0), ON_GPU
            )
            lines.append(f"arrays.{name} = align_{name}(arrays.{name})")
    return compiled("aligned", "arrays: Struct", [*lines, "return arrays"], constants)


@cache
def _aligned_array(dtype: Any, ndim: int, size: int, on_gpu: str) -> Any:
    kind = wp.array(dtype=dtype, ndim=ndim)
    last = f"values.shape.dims[{ndim - 1}] = {size};" if size else ""

    @wp.func_native(_ALIGNED.format(alignment=ALIGNMENT, size=last, on_gpu=on_gpu))
    def align(values: kind) -> kind: ...

    return align


def observe_in_words(rules: Rules) -> Any:
    """Return ``rules.observe``, or one that does the same and stores the row of ``io.obs`` in wide words on a GPU.

    Rows are stored so if words divide them, they fit into registers and are written in full.
    """
    word, width, look = word_of(rules.width), rules.width, rules.observe
    if word == 4 or not 0 < width <= MAX_WIDTH or rules.forget is not None or rules.by_reference:
        return look
    Params, State, IO = rules.params, rules.state, episode.IO
    Row = wp.types.vector(length=width, dtype=float)
    constants = {"width": width, "word": word, "on_gpu": ON_GPU}

    @wp.func_native(_ROW_OR_OBS.format(**constants))
    def row_or_obs(obs: wp.array3d(dtype=float), row: wp.ref[Row]) -> wp.array3d(dtype=float): ...

    @wp.func_native(_PUT.format(**constants))
    def put(obs: wp.array3d(dtype=float), row: wp.ref[Row], env: int, agent: int): ...

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        obs = io.obs
        row = Row()
        io.obs = row_or_obs(obs, row)  # in this function's copy of the struct
        look(params, state, io, env, agent)
        put(obs, row, env, agent)

    return observe
