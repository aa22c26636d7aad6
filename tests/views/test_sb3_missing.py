"""The door to Stable-Baselines3 where it is not installed."""

import importlib
import sys

import pytest

from gpu_envs.errors import MissingExtraError


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    monkeypatch.delitem(sys.modules, "gpu_envs.views.sb3", raising=False)
    with pytest.raises(MissingExtraError, match=r"needs stable-baselines3: pip install 'gpu-envs\[sb3\]'"):
        importlib.import_module("gpu_envs.views.sb3")
