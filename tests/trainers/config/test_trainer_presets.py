"""Presets name environments and algorithms, and are valid settings."""

from trainers.config.off_policy_presets import OFF_POLICY_PRESETS
from trainers.config.on_policy_presets import ON_POLICY_PRESETS
from trainers.config.presets import PRESETS, preset


def test_presets_are_valid():
    assert not ON_POLICY_PRESETS.keys() & OFF_POLICY_PRESETS.keys()
    for env_id, kind, algorithm in PRESETS:
        config = preset(env_id, f"{kind}:0" if kind == "cuda" else kind, algorithm)
        assert (config.env_id, config.algorithm) == (env_id, algorithm)
        assert config.total_steps > 10 * config.num_envs * config.learner.rollout_length
    assert preset("Unknown-v0", "cuda:1").num_envs == 2048
