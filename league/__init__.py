"""Populations that learn against each other: PSRO, AlphaStar-style leagues, and what they are judged by."""

import importlib.util

from gpu_envs.errors import MissingExtraError

for _name in ("scipy", "safetensors"):
    if importlib.util.find_spec(_name) is None:
        raise MissingExtraError(f"leagues need {_name}: pip install 'gpu-envs[league]'")
