"""Sizes of a dense network, and the places of its numbers in one row of packed weights.

A row holds the parameters, then copies of matrices in their other orientation, then the statistics that normalize
inputs. Vectors are padded with zeros to a multiple of ``LANES``. Hidden matrices are stored by inputs, with a row of
outputs per input, for the forward pass. They are copied by outputs for the backward pass. The last matrix is stored by
outputs, because its gradient is shorter that way, and copied by inputs.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

LANES = 8
"""Vectors are padded to multiples of this number, the width of the shortest vector registers in use."""
ACTIVATIONS = ("tanh", "relu")
"""Activations of hidden layers."""
MAX_INPUTS = 512
"""Largest number of inputs."""
MAX_WIDTH = 128
"""Largest width of a hidden layer."""
MAX_HIDDEN_LAYERS = 3
"""Largest number of hidden layers."""
MAX_OUTPUTS = 64
"""Largest number of outputs and extra parameters."""


def padded(width: int) -> int:
    """Return the length of a vector of ``width`` numbers with its padding."""
    return -(-width // LANES) * LANES


@dataclass(frozen=True)
class Mlp:
    """A dense network: inputs, hidden layers with one activation, and outputs.

    Raises:
        ValueError: Kernels do not support the sizes, see :meth:`unsupported`.
    """

    inputs: int
    """Number of inputs."""
    hidden: tuple[int, ...]
    """Widths of the hidden layers."""
    outputs: int
    """Number of outputs."""
    activation: str = "tanh"
    """Activation of the hidden layers."""
    extra: int = 0
    """Number of parameters that no input changes, such as log standard deviations; they follow the outputs."""

    def __post_init__(self) -> None:
        if reason := self.unsupported():
            raise ValueError(reason)

    def unsupported(self) -> str:
        """Return why kernels do not support these sizes, or an empty string."""
        if self.activation not in ACTIVATIONS:
            return f"activation: expected one of {', '.join(ACTIVATIONS)}, got {self.activation!r}"
        if not 1 <= self.inputs <= MAX_INPUTS:
            return f"inputs: expected 1 to {MAX_INPUTS}, got {self.inputs}"
        if not 1 <= len(self.hidden) <= MAX_HIDDEN_LAYERS:
            return f"hidden layers: expected 1 to {MAX_HIDDEN_LAYERS}, got {len(self.hidden)}"
        if not all(1 <= width <= MAX_WIDTH for width in self.hidden):
            return f"hidden widths: expected 1 to {MAX_WIDTH}, got {self.hidden}"
        if not 1 <= self.outputs + self.extra <= MAX_OUTPUTS:
            return f"outputs: expected 1 to {MAX_OUTPUTS}, got {self.outputs + self.extra}"
        return ""

    @property
    def key(self) -> str:
        """Name of the sizes, for modules and messages."""
        return f"{self.inputs}-{'-'.join(map(str, self.hidden))}-{self.outputs}+{self.extra} {self.activation}"

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Widths from the inputs to the outputs."""
        return (self.inputs, *self.hidden, self.outputs)

    @property
    def num_layers(self) -> int:
        """Number of matrices."""
        return len(self.hidden) + 1

    @property
    def head_width(self) -> int:
        """Length of the vector of outputs and extra parameters, with its padding."""
        return padded(self.outputs + self.extra)

    def out_width(self, layer: int) -> int:
        """Length of the vector of a layer's results, with its padding."""
        return self.head_width if layer == self.num_layers - 1 else padded(self.widths[layer + 1])

    @cached_property
    def weight_offsets(self) -> tuple[int, ...]:
        """First place of the matrix of every layer."""
        places, at = [], 0
        for layer in range(self.num_layers):
            places.append(at)
            at += self._matrix_size(layer) + self.out_width(layer)
        return tuple(places)

    @cached_property
    def bias_offsets(self) -> tuple[int, ...]:
        """First place of the bias of every layer; extra parameters follow the bias of the last layer."""
        return tuple(at + self._matrix_size(layer) for layer, at in enumerate(self.weight_offsets))

    @property
    def extra_offset(self) -> int:
        """First place of the extra parameters."""
        return self.bias_offsets[-1] + self.outputs

    @property
    def num_packed(self) -> int:
        """Number of places of parameters, also the number of packed gradients."""
        return self.bias_offsets[-1] + self.head_width

    @cached_property
    def copy_offsets(self) -> tuple[int, ...]:
        """First place of the copy of every matrix but the first, which has none (-1)."""
        places, at = [-1], self.num_packed
        for layer in range(1, self.num_layers):
            places.append(at)
            at += self._copy_size(layer)
        return (*places, at)

    @property
    def normalizer_offset(self) -> int:
        """First place of the means of inputs; their reciprocal standard deviations follow."""
        return self.copy_offsets[-1]

    @property
    def row_size(self) -> int:
        """Number of places of a row of packed weights."""
        return self.normalizer_offset + 2 * padded(self.inputs)

    def _matrix_size(self, layer: int) -> int:
        if layer == self.num_layers - 1:
            return self.outputs * padded(self.widths[layer])
        return self.widths[layer] * self.out_width(layer)

    def _copy_size(self, layer: int) -> int:
        if layer == self.num_layers - 1:
            return padded(self.widths[layer]) * self.head_width
        return self.widths[layer + 1] * padded(self.widths[layer])

    def weight_place(self, layer: int, out: Any, into: Any) -> Any:
        """Return the place of the weight from input ``into`` to output ``out`` of a layer; ints, or arrays of them."""
        if layer == self.num_layers - 1:
            return self.weight_offsets[layer] + out * padded(self.widths[layer]) + into
        return self.weight_offsets[layer] + into * self.out_width(layer) + out

    def copy_place(self, layer: int, out: Any, into: Any) -> Any:
        """Return the place of the copy of a weight of a layer after the first."""
        if layer == self.num_layers - 1:
            return self.copy_offsets[layer] + into * self.head_width + out
        return self.copy_offsets[layer] + out * padded(self.widths[layer]) + into
