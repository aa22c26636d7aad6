"""Random generators that belong to a device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from weakref import WeakValueDictionary

import torch

from pretended_gpu.claims import CPU
from pretended_gpu.state import NOT_PERMITTED, GPUState

RealGenerator = torch.Generator
_KNOWN: WeakValueDictionary[int, Any] = WeakValueDictionary()
"""Generators that claim a device, by address: operations see another Python object of the same generator."""


def generator_class(gpu: GPUState) -> type[RealGenerator]:
    """Return the class that replaces torch.Generator, and create the default generator of every GPU."""

    class AnyGenerator(type(RealGenerator)):  # type: ignore[misc]
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, RealGenerator)

    class Generator(RealGenerator, metaclass=AnyGenerator):
        """A generator of the CPU that claims a device and gives the same numbers there."""

        def __new__(cls, device: Any = "cpu") -> Generator:
            generator = super().__new__(cls, "cpu")
            generator.claimed_device = gpu.resolve(device)
            _KNOWN[generator._cdata] = generator
            return generator

        def __init__(self, device: Any = "cpu") -> None:
            pass

        @property
        def device(self) -> torch.device:
            return self.claimed_device

        def manual_seed(self, seed: int) -> Generator:
            self._check_not_capturing()
            super().manual_seed(seed)
            return self

        def set_state(self, new_state: torch.Tensor) -> Generator:
            self._check_not_capturing()
            super().set_state(new_state)
            return self

        def _check_not_capturing(self) -> None:
            if gpu.capture is not None and self.claimed_device.type == "cuda":
                raise RuntimeError(f"CUDA error: {NOT_PERMITTED}: the state of a generator was set")

    gpu.default_generators = [Generator(torch.device("cuda", index)) for index in range(gpu.num_devices)]
    return Generator


def known_generator(generator: RealGenerator) -> RealGenerator:
    """Return the Python object that a generator was made as."""
    return _KNOWN.get(generator._cdata, generator)  # type: ignore[attr-defined]


def device_of_generator(generator: RealGenerator) -> torch.device:
    """Return the device that a generator claims."""
    return getattr(known_generator(generator), "claimed_device", CPU)


@contextlib.contextmanager
def default_generator_in_use(generator: RealGenerator) -> Iterator[None]:
    """Let operations that name no generator draw from this one."""
    host = torch.default_generator
    state = host.get_state()
    host.set_state(generator.get_state())
    try:
        yield
    finally:
        RealGenerator.set_state(generator, host.get_state())
        host.set_state(state)
