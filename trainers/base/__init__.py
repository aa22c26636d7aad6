"""Specifications, state, gradients, shards and files of the trainers. Imports no other package of `trainers`."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from gpu_envs.utils.settings import check_settings, setting
    from trainers.base.agent_group import AgentGroup, make_agent_group
    from trainers.base.gradients import LOCAL_REDUCER, GradientReducer, MinibatchSampler
    from trainers.base.learner_spec import AgentSpec, LearnerSpec
    from trainers.base.shard import Shard
    from trainers.base.state import State
    from trainers.base.transition import Transition

__all__ = [
    "LOCAL_REDUCER",
    "AgentGroup",
    "AgentSpec",
    "GradientReducer",
    "LearnerSpec",
    "MinibatchSampler",
    "Shard",
    "State",
    "Transition",
    "check_settings",
    "make_agent_group",
    "setting",
]

__getattr__, __dir__ = lazy_exports(__name__)
