"""SimpleReference-v0 with the interface of mpe2's module simple_reference_v3."""

from gpu_envs.mpe.scenario import SCENARIOS

__all__ = ["env", "parallel_env", "raw_env"]

_SCENARIO = SCENARIOS["simple_reference_v3"]

parallel_env = _SCENARIO.parallel_env
"""Function that returns a world as a ``pettingzoo.ParallelEnv``."""
env = _SCENARIO.env
"""Function that returns a world as a ``pettingzoo.AECEnv``."""
raw_env = _SCENARIO.raw_env
"""Function that does the same as ``env``, because the environment itself does all checks of mpe2's wrappers."""
