"""A pretended GPU: CPU memory that claims to be on a CUDA device, for tests of the GPU path on any machine.

`activate` replaces what torch and Warp offer for CUDA, and restores it at its end:

- Every tensor has the device that it claims; mixing devices raises, as on a GPU (`claims`, `operations`).
- A generator belongs to a device and refuses tensors of another one (`generators`).
- Host synchronizations, allocations and graph launches are counted, with the lines that cause them (`state`).
- A CUDA graph is a list of recorded calls that a replay repeats on the same memory (`graphs`).
- Warp kernels run on the CPU and must be launched on torch's current stream (`warp_launches`).

It shows no races, no asynchronous execution, no memory errors of kernels, no rounding of a GPU and no speed.
"""

from pretended_gpu.install import activate
from pretended_gpu.state import GPUState, Observed

__all__ = ["GPUState", "Observed", "activate"]
