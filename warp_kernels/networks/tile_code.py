"""Source lines of the tile form of dense networks, see :mod:`~warp_kernels.networks.tiles`.

The number of tiles depends on the number of layers. Every element of a tile has its thread, except in matrix
products. ``barrier[0] = 0`` waits for all threads of the block, where a product would overwrite what some still read.
"""

from collections.abc import Iterable

from warp_kernels.networks.mlp import Mlp, padded
from warp_kernels.networks.tile_memory import PIECE, TileSizes

_ARRAY = "wp.array(ptr={base} + wp.uint64({offset} * 4), shape=({count},), dtype=float)"


def indented(*lines: str) -> list[str]:
    """Return the lines of a block."""
    return [f"    {line}" for line in lines]


def array_of(base: str, offset: int, count: int) -> str:
    """Return the array of ``count`` numbers from an offset of packed ones."""
    return _ARRAY.format(base=base, offset=offset, count=count)


def own_elements(name: str, count: str, *lines: str) -> list[str]:
    """Return the loop of a thread over its elements of ``count`` ones."""
    return [
        f"{name} = int(lane)",
        f"while {name} < {count}:",
        *indented(*lines, f"{name} += wp.block_dim()"),
    ]


def _sliced(length: int, part: int, lines: Iterable[str]) -> list[str]:
    """Return the loop over slices that start at ``k``."""
    if part >= length:
        return ["k = int(0)", *lines]
    return ["k = int(0)", f"while k < {length}:", *indented(*lines, f"k += {part}")]


def buffer_lines(mlp: Mlp, tile_rows: int, sizes: TileSizes) -> list[str]:
    """Return the lines that allocate shared memory."""
    zeros = "{} = wp.tile_zeros(shape=({}), dtype={}, storage='shared')".format
    lines = [zeros("matrix", f"{sizes.matrix},", "float"), zeros("work", f"{sizes.work},", "float")]
    lines += [zeros("rows", f"{tile_rows},", "int"), zeros("barrier", "1,", "int")]
    lines += [zeros(f"h{k + 1}", f"{tile_rows}, {mlp.out_width(k)}", "float") for k in range(mlp.num_layers - 1)]
    return [*lines, zeros("outputs", f"{tile_rows}, {mlp.head_width}", "float")]


def _matrix(name: str, buffer: str, rows: int, columns: int) -> list[str]:
    """Return the lines that view the start of a buffer as a matrix."""
    return [
        f"{name}_flat = wp.tile_view({buffer}, offset=(0,), shape=({rows * columns},))",
        f"{name} = wp.tile_reshape({name}_flat, shape=({rows}, {columns}))",
    ]


def weight_lines(mlp: Mlp, layers: Iterable[int]) -> list[str]:
    """Return the lines that view the packed weights: w by inputs, t by outputs of some layers, and load biases b."""
    lines, last = [], mlp.num_layers - 1
    for layer in range(mlp.num_layers):
        into, out = padded(mlp.widths[layer]), mlp.out_width(layer)
        offset, copy = mlp.weight_offsets[layer], mlp.copy_offsets[layer]
        by_inputs = (copy, into * out) if layer == last else (offset, mlp.widths[layer] * out)
        by_outputs = offset if layer == last else copy
        lines.append(f"w{layer} = {array_of('base', *by_inputs)}")
        lines.append(f"bias{layer} = {array_of('base', mlp.bias_offsets[layer], out)}")
        lines.append(f"b{layer} = wp.tile_load(bias{layer}, shape=({out},), storage='shared')")
        if layer and layer in layers:
            lines.append(f"t{layer} = {array_of('base', by_outputs, mlp.widths[layer + 1] * into)}")
    return lines


def normalizer_lines(mlp: Mlp) -> list[str]:
    """Return the lines that view the statistics of the inputs in the packed weights."""
    first = mlp.normalizer_offset
    return [
        f"mean = {array_of('base', first, mlp.inputs)}",
        f"rstd = {array_of('base', first + padded(mlp.inputs), mlp.inputs)}",
    ]


def row_lines(tile_rows: int, row: str, name: str = "rows") -> list[str]:
    """Return the lines that list the rows of the tile; all threads take part in every assignment of an element.

    Args:
        tile_rows: Number of rows of the tile.
        row: Entry of row ``{row}`` of the tile.
        name: Name of the list.
    """
    return [
        "turn = int(lane)",
        f"while turn - lane < {tile_rows}:",
        f"    {name}[turn % {tile_rows}] = int({row.format(row=f'turn % {tile_rows}')})",
        "    turn += wp.block_dim()",
    ]


def _inputs(
    name: str, buffer: str, tile_rows: int, sizes: TileSizes, normalize: bool = False, keep: bool = False
) -> list[str]:
    """Return the lines that load the next slice of the inputs, normalize it, and keep it in ``seen``."""
    n = sizes.inputs
    shape = f"({_piece_rows(tile_rows, n)}, {n})"
    lines, values = _matrix(name, buffer, tile_rows, n), f"{name}_values"
    if normalize:
        lines.append(f"mean_part = wp.tile_load(mean, shape=({n},), offset=(k,), storage='shared')")
        lines.append(f"rstd_part = wp.tile_load(rstd, shape=({n},), offset=(k,), storage='shared')")
        lines.append(f"means = wp.tile_broadcast(mean_part, shape={shape})")
        lines.append(f"rstds = wp.tile_broadcast(rstd_part, shape={shape})")
        values = f"wp.tile_map(normalized, {values}, means, rstds)"
    lines += _pieces(
        tile_rows,
        n,
        [
            f"{name}_rows = wp.tile_view(rows, offset=(p,), shape=({_piece_rows(tile_rows, n)},))",
            f"{name}_values = wp.tile_load_indexed(x, {name}_rows, shape={shape}, offset=(0, k), axis=0)",
            f"wp.tile_assign({name}, {values}, offset=(p, 0))",
        ],
    )
    if keep:
        lines += own_elements(
            "c",
            f"wp.min({tile_rows}, last - at) * {n}",
            f"if k + c % {n} < seen.shape[1]:",
            f"    seen[rows[c // {n}], k + c % {n}] = {name}[c // {n}, c % {n}]",
        )
    return lines


def _piece_rows(tile_rows: int, width: int) -> int:
    """Return the number of rows of a tile that are in the registers of a block at once."""
    return max(n for n in (1, 2, 4, 8, 16, 32, 64) if tile_rows % n == 0 and (n * width <= PIECE or n == 1))


def _pieces(tile_rows: int, width: int, lines: Iterable[str]) -> list[str]:
    """Return the loop over pieces of a tile, whose rows start at ``p``."""
    rows = _piece_rows(tile_rows, width)
    return ["p = int(0)", f"while p < {tile_rows}:", *indented(*lines, f"p += {rows}")]


def _mapped(function: str, result: str, tile_rows: int, width: int, other: Iterable[str]) -> list[str]:
    """Return the lines that apply a function to a tile in place; ``other`` lines view its second argument."""
    shape, part = f"({_piece_rows(tile_rows, width)}, {width})", f"{result}_{function}"
    return _pieces(
        tile_rows,
        width,
        [
            *other,
            f"{part} = wp.tile_view({result}, offset=(p, 0), shape={shape})",
            f"wp.tile_assign({part}, wp.tile_map({function}, {part}, {part}_other))",
        ],
    )


def _product(name: str, left: str, columns: tuple[int, int], source: str, length: int, result: str) -> list[str]:
    """Return the lines that multiply ``left`` (rows, whole) by a matrix (whole, length), slice by slice.

    Args:
        name: Name of the product.
        left: Name of the left tile.
        columns: Rows of a tile, and inputs of a slice.
        source: Name of the packed matrix.
        length: Length of its rows.
        result: Name of the result.
    """
    rows, part = columns
    return [
        f"{name}_left = wp.tile_view({left}, offset=(0, k), shape=({rows}, {part}))",
        *_right(name, source, part, length),
        f"wp.tile_matmul({name}_left, {name}_right, {result}, beta=wp.where(k > 0, 1.0, 0.0))",
    ]


def _right(name: str, source: str, part: int, length: int) -> list[str]:
    """Return the lines that load a slice of a matrix; rows after its end are zeros."""
    piece = min(PIECE, part * length)
    return [
        *_matrix(f"{name}_right", "matrix", part, length),
        "p = int(0)",
        f"while p < {part * length}:",
        f"    {name}_values = wp.tile_load({source}, shape=({piece},), offset=(k * {length} + p,))",
        f"    wp.tile_assign(matrix, {name}_values, offset=(p,))",
        f"    p += {piece}",
    ]


def forward_lines(mlp: Mlp, tile_rows: int, sizes: TileSizes, normalize: bool, keep: bool = False) -> list[str]:
    """Return the lines of the forward pass: hidden values h1, h2, ... and outputs.

    Args:
        mlp: Sizes of the network.
        tile_rows: Number of rows of a tile.
        sizes: Sizes of the buffers.
        normalize: Normalize and clip the inputs.
        keep: Write the inputs of the first layer to ``seen``.
    """
    last = mlp.num_layers - 1
    lines = _sliced(
        padded(mlp.inputs),
        sizes.inputs,
        [
            *_inputs("x0", "work", tile_rows, sizes, normalize, keep),
            *_right("p0", "w0", sizes.inputs, mlp.out_width(0)),
            "wp.tile_matmul(x0, p0_right, h1, beta=wp.where(k > 0, 1.0, 0.0))",
        ],
    )
    for layer in range(mlp.num_layers):
        width, result = mlp.out_width(layer), "outputs" if layer == last else f"h{layer + 1}"
        if layer:
            part = sizes.forward[layer]
            lines += _sliced(
                padded(mlp.widths[layer]),
                part,
                _product(f"p{layer}", f"h{layer}", (tile_rows, part), f"w{layer}", width, result),
            )
        function = "plus" if layer == last else "activated"
        shape = f"({_piece_rows(tile_rows, width)}, {width})"
        other = [f"{result}_{function}_other = wp.tile_broadcast(b{layer}, shape={shape})"]
        lines += _mapped(function, result, tile_rows, width, other)
    return lines


def _each_output(mlp: Mlp, line: str) -> list[str]:
    """Return the loop over outputs, which Warp unrolls if it is short; long ones would take minutes to compile."""
    return [f"for j in range({mlp.head_width}):", f"    {line}"]


def head_lines(mlp: Mlp, tile_rows: int) -> list[str]:
    """Return the lines that replace outputs by the gradients of the loss, and add metrics.

    All threads take part in every assignment of an element. With more threads than rows, some compute the same row.
    """
    return [
        "turn = int(lane)",
        f"while turn - lane < {tile_rows}:",
        *indented(
            f"r = turn % {tile_rows}",
            "row = rows[r]",
            "factor = wp.where(at + r < last and batch.valid[row], batch.scale[policy, minibatch], 0.0)",
            "o = Outputs()",
            *_each_output(mlp, "o[j] = outputs[r, j]"),
            "e, m = head(batch.rows, batch.settings, row, o, factor)",
            f"metrics[lane] = metrics[lane] + m * wp.where(turn < {tile_rows}, 1.0, 0.0)",
            *_each_output(mlp, "outputs[r, j] = e[j]"),
            "turn += wp.block_dim()",
        ),
    ]


def backward_lines(mlp: Mlp, tile_rows: int, sizes: TileSizes) -> list[str]:
    """Return the lines of the backward pass, which replaces hidden values by gradients."""
    lines, last = [], mlp.num_layers - 1
    for layer in range(last, -1, -1):
        into, out = padded(mlp.widths[layer]), mlp.out_width(layer)
        errors = "outputs" if layer == last else f"h{layer + 1}"
        lines += own_elements(
            "c",
            str(out),
            "total_bias = float(0.0)",
            f"for r in range({tile_rows}):",
            f"    total_bias += {errors}[r, c]",
            f"target[{mlp.bias_offsets[layer]} + c] = target[{mlp.bias_offsets[layer]} + c] + total_bias",
        )
        if layer == last:
            left, right, height, width, valid = "outputs", f"h{layer}", out, into, mlp.outputs
        else:
            left, right, height, width, valid = f"h{layer}", errors, into, out, mlp.widths[layer]
        part = sizes.gradient[layer]
        if layer:
            load = [f"g{layer}_left = wp.tile_view({left}, offset=(0, k), shape=({tile_rows}, {part}))"]
        else:
            load = _inputs("g0_left", "matrix", tile_rows, sizes)
        index = f"{mlp.weight_offsets[layer]} + k * {width} + c"
        lines += _sliced(
            height,
            part,
            [
                *load,
                f"g{layer}_turned = wp.tile_transpose(g{layer}_left)",
                *_matrix(f"g{layer}", "work", part, width),
                f"wp.tile_matmul(g{layer}_turned, {right}, g{layer}, beta=0.0)",
                *own_elements(
                    "c",
                    f"wp.min({part}, {valid} - k) * {width}",
                    f"target[{index}] = target[{index}] + work[c]",
                ),
                "barrier[0] = 0",
            ],
        )
        if layer:
            part = sizes.backward[layer]
            lines += _matrix(f"d{layer}", "work", tile_rows, into)
            lines += _sliced(
                out, part, _product(f"q{layer}", errors, (tile_rows, part), f"t{layer}", into, f"d{layer}")
            )
            shape = f"({_piece_rows(tile_rows, into)}, {into})"
            other = [f"h{layer}_sloped_other = wp.tile_view(d{layer}, offset=(p, 0), shape={shape})"]
            lines += _mapped("sloped", f"h{layer}", tile_rows, into, other)
    return lines
