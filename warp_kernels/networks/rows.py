"""Dense networks on a CPU: forward and backward pass of a few rows at once in one thread.

The loads of the weights limit one row at a time, so several rows share them. The functions are generated, because the
number of their variables depends on the number of rows and layers.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any

from warp_kernels.generated_source import compiled
from warp_kernels.networks.activations import activation, add_product, normalized, slope, vector
from warp_kernels.networks.mlp import Mlp, padded

OBS_CLIP = 10.0
"""Bound of normalized inputs, in standard deviations, as in the normalizer of the trainers."""

_MATRIX = "wp.array(ptr={base} + wp.uint64({offset} * 4), shape=({rows},), dtype={dtype})"


def rows_at_once(mlp: Mlp) -> int:
    """Return the number of rows that share the loads of the weights; more would not fit in the vector registers."""
    return 4 if max(mlp.hidden) <= 64 else 2


@cache
def forward_rows(mlp: Mlp, num_rows: int, normalize: bool) -> Any:
    """Build ``forward(base, x, r0, r1, ...)``, which returns the outputs of the rows r0, r1, ... of x.

    Entries after the outputs hold the extra parameters, then zeros.

    Args:
        mlp: Sizes of the network.
        num_rows: Number of rows.
        normalize: Normalize the inputs by the statistics of the packed weights.

    The function takes the address of a row of packed weights, ``base`` uint64, and contiguous inputs ``x`` (N, D).
    """
    rows = range(num_rows)
    lines = [*_views(mlp, "base", range(mlp.num_layers)), *_forward(mlp, rows, normalize)]
    lines.append(f"return {', '.join(f'o{r}' for r in rows)}")
    parameters = f"base: wp.uint64, x: wp.array2d(dtype=float), {', '.join(f'r{r}: int' for r in rows)}"
    return compiled("forward", parameters, lines, _constants(mlp))


@cache
def gradient_rows(mlp: Mlp, num_rows: int, head: Any, inputs: type) -> Any:
    """Build ``gradient(base, into, x, inputs, settings, r0, ..., s0, ...)``, which adds gradients.

    It runs the forward pass, the head and the backward pass of the rows r0, r1, ... of x. It adds their gradients to
    the packed ones at the address ``into``, and returns the sums of the head's metrics. Rows have factors s0, s1, ...

    Args:
        mlp: Sizes of the network.
        num_rows: Number of rows.
        head: Warp function ``head(inputs, settings, row, outputs, scale)``, which returns the gradient of the loss by
            the outputs, and metrics. Both are multiplied by ``scale``.
        inputs: Warp struct that the head reads.
    """
    rows, last = range(num_rows), mlp.num_layers - 1
    lines = [*_views(mlp, "base", range(mlp.num_layers)), *_gradient_views(mlp), *_forward(mlp, rows, False)]
    lines += [f"e{last}_{r}, m{r} = head(inputs, settings, r{r}, o{r}, s{r})" for r in rows]
    for layer in range(last, -1, -1):
        lines.append(f"gb{layer}[0] = gb{layer}[0] + {_sum(f'e{layer}_{r}' for r in rows)}")
        if layer:  # the gradient by the results of the layer before
            lines += [f"d{layer}_{r} = V{layer}()" for r in rows]
            lines += ["k = int(0)", f"while k < {mlp.widths[layer + 1]}:", f"    t{layer}_k = t{layer}[k]"]
            lines += [f"    d{layer}_{r} = fused{layer - 1}(t{layer}_k, e{layer}_{r}[k], d{layer}_{r})" for r in rows]
            if layer == last:  # its matrix is stored by outputs
                lines += _accumulate(
                    f"g{last}", f"fused{last - 1}", [(f"h{last}_{r}", f"e{last}_{r}[k]") for r in rows]
                )
            lines += ["    k += 1"]
        if layer < last:
            value = "h{layer}_{r}[k]" if layer else "x[r{r}, k]"
            products = [(f"e{layer}_{r}", value.format(layer=layer, r=r)) for r in rows]
            lines += ["k = int(0)", f"while k < {mlp.widths[layer]}:"]
            lines += [*_accumulate(f"g{layer}", f"fused{layer}", products), "    k += 1"]
        if layer:
            lines += [f"e{layer - 1}_{r} = wp.cw_mul(d{layer}_{r}, slope{layer - 1}(h{layer}_{r}))" for r in rows]
    lines.append(f"return {_sum(f'm{r}' for r in rows)}")
    numbers = ", ".join([f"r{r}: int" for r in rows] + [f"s{r}: float" for r in rows])
    parameters = (
        "base: wp.uint64, into: wp.uint64, x: wp.array2d(dtype=float), inputs: Inputs, "
        f"settings: wp.array(dtype=float), {numbers}"
    )
    constants = _constants(mlp) | {"head": head, "Inputs": inputs}
    constants |= {f"slope{layer}": slope(mlp.activation, mlp.out_width(layer)) for layer in range(last)}
    return compiled("gradient", parameters, lines, constants)


def _accumulate(target: str, fused: str, products: Iterable[tuple[str, str]]) -> list[str]:
    """Return lines that add products of a vector and a number to entry k of an array."""
    lines = [f"    {target}_k = {target}[k]"]
    lines += [f"    {target}_k = {fused}({v}, {x}, {target}_k)" for v, x in products]
    return [*lines, f"    {target}[k] = {target}_k"]


def _sum(terms: Iterable[str]) -> str:
    return " + ".join(terms)


def _constants(mlp: Mlp) -> dict[str, Any]:
    """Return the vector types V1, V2, ... of hidden layers, the type of the outputs, and functions by layer."""
    last = mlp.num_layers - 1
    constants: dict[str, Any] = {f"V{layer + 1}": vector(mlp.out_width(layer)) for layer in range(last)}
    constants["Outputs"] = vector(mlp.head_width)
    constants["normalized"] = normalized(mlp.inputs, padded(mlp.inputs), OBS_CLIP)
    constants |= {f"fused{layer}": add_product(mlp.out_width(layer)) for layer in range(mlp.num_layers)}
    for layer in range(last):
        constants[f"activation{layer}"] = activation(mlp.activation, mlp.out_width(layer))
    return constants


def _type_of(mlp: Mlp, layer: int) -> str:
    return "Outputs" if layer == mlp.num_layers - 1 else f"V{layer + 1}"


def _views(mlp: Mlp, base: str, layers: Iterable[int]) -> list[str]:
    """Return lines that view the packed weights: w by inputs, t by outputs, b biases."""
    lines, last = [], mlp.num_layers - 1
    for layer in layers:
        offset, copy = mlp.weight_offsets[layer], mlp.copy_offsets[layer]
        by_inputs, by_outputs = (copy, offset) if layer == last else (offset, copy)
        dtype = _type_of(mlp, layer)
        lines.append(f"w{layer} = {_view(base, by_inputs, padded(mlp.widths[layer]), dtype)}")
        lines.append(f"b{layer} = {_view(base, mlp.bias_offsets[layer], 1, dtype)}")
        if layer:
            lines.append(f"t{layer} = {_view(base, by_outputs, mlp.widths[layer + 1], f'V{layer}')}")
    return lines


def _gradient_views(mlp: Mlp) -> list[str]:
    """Return lines that view packed gradients: g of matrices, gb of biases."""
    lines, last = [], mlp.num_layers - 1
    for layer in range(mlp.num_layers):
        offset, dtype = mlp.weight_offsets[layer], _type_of(mlp, layer)
        rows, of = (mlp.outputs, f"V{layer}") if layer == last else (mlp.widths[layer], dtype)
        lines.append(f"g{layer} = {_view('into', offset, rows, of)}")
        lines.append(f"gb{layer} = {_view('into', mlp.bias_offsets[layer], 1, dtype)}")
    return lines


def _view(base: str, offset: int, rows: int, dtype: str) -> str:
    return _MATRIX.format(base=base, offset=offset, rows=rows, dtype=dtype)


def _forward(mlp: Mlp, rows: range, normalize: bool) -> list[str]:
    """Return the lines of the forward pass: hidden values h1_r, h2_r, ... and outputs o_r."""
    lines, last = [], mlp.num_layers - 1
    together = normalize and len(rows) > 1
    if together:
        stats = f"base + wp.uint64({mlp.normalizer_offset * 4})"
        lines += [f"h0_{r} = normalized(x.ptr + wp.uint64(r{r}) * wp.uint64(4 * x.shape[1]), {stats})" for r in rows]
    elif normalize:
        lines.append(f"mean = {_view('base', mlp.normalizer_offset, mlp.inputs, 'float')}")
        lines.append(f"rstd = {_view('base', mlp.normalizer_offset + padded(mlp.inputs), mlp.inputs, 'float')}")
    for layer in range(last):
        results = [f"h{layer + 1}_{r}" for r in rows]
        lines += [f"{result} = b{layer}[0]" for result in results]
        lines += ["k = int(0)", f"while k < {mlp.widths[layer]}:", f"    v{layer} = w{layer}[k]"]
        for r, result in zip(rows, results, strict=True):
            value = f"h{layer}_{r}[k]" if layer or together else f"x[r{r}, k]"
            if normalize and not together and not layer:
                value = f"wp.clamp(({value} - mean[k]) * rstd[k], {-OBS_CLIP}, {OBS_CLIP})"
            lines.append(f"    {result} = fused{layer}(v{layer}, {value}, {result})")
        lines += ["    k += 1", *(f"{result} = activation{layer}({result})" for result in results)]
    # Outputs are short, so that a sum waits for the one before: even and odd inputs have separate sums.
    lines += [f"o{r} = b{last}[0]" for r in rows] + [f"p{r} = Outputs()" for r in rows]
    lines += [
        "k = int(0)",
        f"while k < {padded(mlp.widths[last])}:",
        f"    u0 = w{last}[k]",
        f"    u1 = w{last}[k + 1]",
    ]
    lines += [
        line
        for r in rows
        for line in (
            f"    o{r} = fused{last}(u0, h{last}_{r}[k], o{r})",
            f"    p{r} = fused{last}(u1, h{last}_{r}[k + 1], p{r})",
        )
    ]
    return [*lines, "    k += 2", *(f"o{r} += p{r}" for r in rows)]
