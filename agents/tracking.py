"""Where curves go besides TensorBoard: to Weights & Biases or to MLflow, if they are installed."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
from stable_baselines3.common.logger import Image, KVWriter

Tracker = Literal["wandb", "mlflow"]
Choices = Mapping[str, Mapping[str, Any]]
"""By group and name."""
Log = Callable[[dict[str, float], dict[str, np.ndarray], int], None]
"""Takes numbers by name, images (height, width, 3) by name, and the step."""
PROJECT = "gpu-cluster-gym"
SEVERAL = 100  # params that MLflow takes at a time


@contextmanager
def tracked(tracker: Tracker | None, folder: Path, choices: Choices) -> Iterator[list[KVWriter]]:
    """Open a run with a tracker, if there is one; give what a logger writes to besides, and close the run at the end.

    folder: of the run, whose name it takes. ValueError where the tracker cannot open it.
    """
    if tracker is None:
        yield []
        return
    with {"wandb": _wandb, "mlflow": _mlflow}[tracker](folder, choices) as log:
        yield [Writer(log)]


class Writer(KVWriter):
    """Hands on what Stable-Baselines3 logs: numbers and images. What else there is stands in the run's folder."""

    def __init__(self, log: Log) -> None:
        """Take what is called with each step's."""
        self._log = log

    def write(
        self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0
    ) -> None:
        """Hand on what was recorded up to a step."""
        numbers = {
            name: float(value)
            for name, value in key_values.items()
            if isinstance(value, int | float | np.number)
        }
        images = {
            name: np.asarray(value.image) for name, value in key_values.items() if isinstance(value, Image)
        }
        self._log(numbers, images, step)

    def close(self) -> None:
        """Do nothing: who has opened the run closes it."""


@contextmanager
def _wandb(folder: Path, choices: Choices) -> Iterator[Log]:
    """Open a run of Weights & Biases, which stays in the folder unless WANDB_MODE says where else."""
    import wandb

    mode = os.environ.get("WANDB_MODE", "offline")
    try:
        opened = wandb.init(project=PROJECT, name=folder.name, dir=str(folder), config=choices, mode=mode)
    except wandb.Error as error:
        raise ValueError(f"--track wandb: {error}") from error
    with opened as run:

        def log(numbers: dict[str, float], images: dict[str, np.ndarray], step: int) -> None:
            run.log(numbers | {name: wandb.Image(image) for name, image in images.items()}, step=step)

        yield log


@contextmanager
def _mlflow(folder: Path, choices: Choices) -> Iterator[Log]:
    """Open a run of MLflow, at MLFLOW_TRACKING_URI or where MLflow itself puts it, with the choices as params."""
    import mlflow

    def log(numbers: dict[str, float], images: dict[str, np.ndarray], step: int) -> None:
        mlflow.log_metrics(numbers, step=step)
        for name, image in images.items():
            mlflow.log_image(image, key=name, step=step)

    try:
        mlflow.set_experiment(PROJECT)
        opened = mlflow.start_run(run_name=folder.name)
    except mlflow.MlflowException as error:
        raise ValueError(f"--track mlflow: {error}") from error
    with opened:
        params = [(f"{group}.{name}", value) for group, own in choices.items() for name, value in own.items()]
        for first in range(0, len(params), SEVERAL):
            mlflow.log_params(dict(params[first : first + SEVERAL]))
        yield log
