"""Time of Lightning's loop relative to the trainer's, at the size of `make train`.

Two trainings of the same settings take turns, a rollout and its update each, both with a CSV file and TensorBoard.
"""

import dataclasses
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainers.config.presets import preset
from trainers.runner.trainer import Trainer

ENV_ID = "TagContinuous-v0"
WARM = 5
"""Warm-up turns."""


@dataclass(frozen=True)
class TurnTimes:
    """Seconds of a rollout and its update, by turn."""

    trainer: list[float]
    lightning: list[float]
    steps: int
    """Environment steps of a turn."""
    settings: str
    """Environment, number of worlds and rollout length."""

    @property
    def ratios(self) -> list[float]:
        """Lightning's time over the trainer's, by turn."""
        return [lightning / trainer for lightning, trainer in zip(self.lightning, self.trainer, strict=True)]


def measure(turns: int) -> TurnTimes:
    """Train with both in alternation.

    Raises:
        ImportError: Lightning is not installed.
    """
    import lightning  # pyright: ignore[reportMissingImports]
    from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger  # pyright: ignore[reportMissingImports]

    from trainers.integrations.lightning import LearnerModule

    class Turns(lightning.Callback):
        """Run a turn of the trainer after each turn of Lightning."""

        def __init__(self, trainer: Trainer) -> None:
            self.trainer, self.own_times, self.lightning_times, self.resumed = trainer, [], [], 0.0

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            begin = time.perf_counter()
            self.lightning_times.append(begin - self.resumed)
            self.trainer.iterate()
            self.resumed = time.perf_counter()
            self.own_times.append(self.resumed - begin)

    config = dataclasses.replace(preset(ENV_ID, "cpu"), total_steps=10**9, checkpoint_interval=10**6, eval_episodes=0)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.filterwarnings("ignore")
        pair = Turns(Trainer(config, Path(folder) / "trainer"))
        lightning.Trainer(
            accelerator="cpu",
            devices=1,
            max_epochs=1,
            limit_train_batches=WARM + turns,
            logger=[CSVLogger(folder), TensorBoardLogger(folder)],
            log_every_n_steps=1,
            callbacks=[pair],
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        ).fit(LearnerModule(config))
        pair.trainer.log.close()
    settings = f"{ENV_ID}, {config.num_envs} worlds, rollouts of {config.learner.rollout_length}"
    return TurnTimes(pair.own_times[WARM:], pair.lightning_times[WARM:], config.rollout_steps, settings)
