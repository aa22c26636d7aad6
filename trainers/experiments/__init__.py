"""Experiments as papers report them: algorithms, tasks and seeds in one file, evaluations in one table.

::

    experiment = Experiment("paper.yaml", "out/paper")
    experiment.run()
    frame = experiment.results()
"""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from trainers.experiments.experiment import Experiment
    from trainers.experiments.grid import Cell, EvaluationProtocol, ExperimentTask, Grid

__all__ = ["Cell", "EvaluationProtocol", "Experiment", "ExperimentTask", "Grid"]

__getattr__, __dir__ = lazy_exports(__name__)
