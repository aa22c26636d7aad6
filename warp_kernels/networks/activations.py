"""Functions of whole vectors: activations and their slopes, products that are rounded once, exponentials.

All are loops in C++ over the entries. A CPU keeps the values of a loop in vector registers, but functions of Warp on
whole vectors store every intermediate result.
"""

from functools import cache
from typing import Any

import warp as wp


@cache
def vector(length: int) -> Any:
    """Return Warp's type of vectors of float32."""
    return wp.types.vector(length=length, dtype=wp.float32)


_LOOP = """
    #if defined(__CUDA_ARCH__)
    #define WARP_KERNELS_FMA __fmaf_rn
    #define WARP_KERNELS_FLOOR floorf
    #else
    #define WARP_KERNELS_FMA __builtin_fmaf
    #define WARP_KERNELS_FLOOR __builtin_floorf
    #endif
    wp::vec_t<{length}, wp::float32> z;
    for (int i = {first}; i < {end}; ++i) {{
        {body}
    }}
    return z;
"""

_RELU = "z.c[i] = v.c[i] < 0.0f ? 0.0f : v.c[i];"
_RELU_SLOPE = "z.c[i] = y.c[i] > 0.0f ? 1.0f : 0.0f;"
# Rational approximation, as in Eigen (ptanh); its largest error is below 1e-6. NaN stays NaN.
_TANH = """
        const wp::float32 low = v.c[i] > 7.90531110763549805f ? 7.90531110763549805f : v.c[i];
        const wp::float32 x = low < -7.90531110763549805f ? -7.90531110763549805f : low;
        const wp::float32 q = x * x;
        wp::float32 p = WARP_KERNELS_FMA(q, -2.76076847742355e-16f, 2.00018790482477e-13f);
        p = WARP_KERNELS_FMA(p, q, -8.60467152213735e-11f);
        p = WARP_KERNELS_FMA(p, q, 5.12229709037114e-08f);
        p = WARP_KERNELS_FMA(p, q, 1.48572235717979e-05f);
        p = WARP_KERNELS_FMA(p, q, 6.37261928875436e-04f);
        p = WARP_KERNELS_FMA(p, q, 4.89352455891786e-03f);
        wp::float32 d = WARP_KERNELS_FMA(q, 1.19825839466702e-06f, 1.18534705686654e-04f);
        d = WARP_KERNELS_FMA(d, q, 2.26843463243900e-03f);
        d = WARP_KERNELS_FMA(d, q, 4.89352518554385e-03f);
        z.c[i] = p * x / d;
"""
_TANH_SLOPE = "z.c[i] = WARP_KERNELS_FMA(-y.c[i], y.c[i], 1.0f);"
# exp(x) = 2^n exp(r) with |r| <= log(2) / 2, and a polynomial for exp(r), as in Cephes; the relative error is below
# 2e-7. Results below the smallest normal number are 0, so that an illegal action has no probability.
_EXPONENTIAL = """
        const wp::float32 x = v.c[i] - shift;
        const wp::float32 bounded = x > 88.0f ? 88.0f : x < -87.3f ? -87.3f : x;
        const wp::float32 n = WARP_KERNELS_FLOOR(WARP_KERNELS_FMA(bounded, 1.44269504088896341f, 0.5f));
        wp::float32 r = WARP_KERNELS_FMA(n, -0.693359375f, bounded);
        r = WARP_KERNELS_FMA(n, 2.12194440e-4f, r);
        wp::float32 p = WARP_KERNELS_FMA(r, 1.9875691500e-4f, 1.3981999507e-3f);
        p = WARP_KERNELS_FMA(p, r, 8.3334519073e-3f);
        p = WARP_KERNELS_FMA(p, r, 4.1665795894e-2f);
        p = WARP_KERNELS_FMA(p, r, 1.6666665459e-1f);
        p = WARP_KERNELS_FMA(p, r, 5.0000001201e-1f);
        p = WARP_KERNELS_FMA(p, r * r, r) + 1.0f;
        union { int bits; wp::float32 number; } power;
        power.bits = ((int)n + 127) << 23;
        z.c[i] = x < -87.3f ? 0.0f : p * power.number;
"""
# The vector type of the compiler keeps entries together: of short outputs, some of which are not read, a loop would
# become scalar. Such a vector of 24 entries has the size of 32, so sizes come from the arrays.
_SUM_OF_PRODUCTS = """
    #if defined(__CUDA_ARCH__)
    wp::vec_t<{length}, wp::float32> z;
    for (int i = 0; i < {length}; ++i) z.c[i] = __fmaf_rn(v.c[i], x, y.c[i]);
    return z;
    #else
    typedef float wide __attribute__((ext_vector_type({length})));
    wide a, b;
    __builtin_memcpy(&a, v.c, sizeof(v.c));
    __builtin_memcpy(&b, y.c, sizeof(v.c));
    b = __builtin_elementwise_fma(a, (wide)x, b);
    wp::vec_t<{length}, wp::float32> z;
    __builtin_memcpy(z.c, &b, sizeof(z.c));
    return z;
    #endif
"""


_NORMALIZED = """
    const wp::float32* x = (const wp::float32*)row;
    const wp::float32* mean = (const wp::float32*)statistics;
    const wp::float32* rstd = mean + {length};
    wp::vec_t<{length}, wp::float32> z;
    for (int i = 0; i < {count}; ++i) {{
        const wp::float32 y = (x[i] - mean[i]) * rstd[i];
        const wp::float32 low = -{clip}f < y ? y : -{clip}f;
        z.c[i] = low < {clip}f ? low : {clip}f;
    }}
    return z;
"""


def _loop(length: int, body: str, first: int = 0, end: int | None = None) -> str:
    """Return the code of a function of vectors whose entries from ``first`` to ``end`` are computed."""
    return _LOOP.format(length=length, first=first, end=length if end is None else end, body=body)


@cache
def activation(name: str, length: int) -> Any:
    """Build the function that applies "tanh" or "relu" to every entry of a vector."""
    V = vector(length)

    @wp.func_native(_loop(length, {"tanh": _TANH, "relu": _RELU}[name]))
    def apply(v: V) -> V: ...

    return apply


@cache
def slope(name: str, length: int) -> Any:
    """Build the function that returns the slope of an activation at every entry, from its values."""
    V = vector(length)

    @wp.func_native(_loop(length, {"tanh": _TANH_SLOPE, "relu": _RELU_SLOPE}[name]))
    def apply_slope(y: V) -> V: ...

    return apply_slope


@cache
def add_product(length: int) -> Any:
    """Build ``add_product(v, x, y)``, which returns v * x + y for vectors v and y, rounded once per entry.

    It does not depend on the option ``fuse_fp`` of a module: environments on a CPU are compiled without it, and a
    network computes the same in all modules.
    """
    V = vector(length)

    @wp.func_native(_SUM_OF_PRODUCTS.format(length=length))
    def fused(v: V, x: float, y: V) -> V: ...

    return fused


@cache
def normalized(count: int, length: int, clip: float) -> Any:
    """Build ``normalized(row, statistics)``, which returns the ``count`` normalized numbers at the address ``row``.

    The numbers at ``statistics`` are their means, then their reciprocal standard deviations, each with its padding.
    Results are clipped to [-clip, clip]; the entries after them, up to ``length``, are 0.
    """
    V = vector(length)

    @wp.func_native(_NORMALIZED.format(count=count, length=length, clip=clip))
    def apply(row: wp.uint64, statistics: wp.uint64) -> V: ...

    return apply


@cache
def exponential(length: int, first: int, end: int) -> Any:
    """Build ``exponential(v, shift)``: the exponentials of v - shift, up to exp(88), at entries from first to end.

    Other entries are 0.
    """
    V = vector(length)

    @wp.func_native(_loop(length, _EXPONENTIAL, first, end))
    def apply(v: V, shift: float) -> V: ...

    return apply
