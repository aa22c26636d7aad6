"""Training on many machines with Ray: `pip install '.[ray]'`."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from trainers.cluster.ray_train import train_distributed
    from trainers.cluster.tune_results import TrialResult, TuneResult
    from trainers.cluster.tune_search import resume, tune
    from trainers.cluster.tune_trial import TuneConfig

__all__ = ["TrialResult", "TuneConfig", "TuneResult", "resume", "train_distributed", "tune"]

__getattr__, __dir__ = lazy_exports(__name__)
