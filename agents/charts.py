"""What TensorBoard shows beside curves: the choices of a run, and one chart with the agent among the others."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from stable_baselines3.common.logger import HParam, Image, Logger, TensorBoardOutputFormat
from torch.utils.tensorboard import SummaryWriter

from gpu_cluster_gym.agents.learner import Learner
from gpu_cluster_gym.evaluation.provenance import commit

CHARTS = {
    "validation": {
        "mean JCT / that of its start": ["Multiline", ["jct/(agent|start|constants)"]],
        "the same, beside heuristics": ["Multiline", ["jct/.*"]],
    }
}


def describe_run(logger: Logger, learner: Learner) -> None:
    """Write the choices of a run as text and as hyper-parameters, and the commit that it is run with."""
    for writer in writers(logger):
        writer.add_text("choices", f"```json\n{json.dumps(choices_of(learner), indent=2)}\n```")
        writer.add_text("commit", commit() or "of no checkout")
    numbers = {
        name: value
        for name, value in asdict(learner.training).items()
        if isinstance(value, int | float | str)
    }
    logger.record(
        "hparams", HParam(numbers, {"jct/agent": 0.0, "jct/agent_sampled": 0.0}), exclude=("stdout", "csv")
    )


def choices_of(learner: Learner) -> dict[str, dict[str, Any]]:
    """Return the choices of a run, by group."""
    return {"training": asdict(learner.training), "scenario": asdict(learner.scenario)}


def lay_out_charts(logger: Logger) -> None:
    """Put the agent, its start and the best constants into one chart, heuristics beside them into another."""
    for writer in writers(logger):
        writer.add_custom_scalars(CHARTS)


def show_image(logger: Logger, name: str, draw: Callable[[], np.ndarray | None]) -> None:
    """Record an image (height, width, 3), if there is one, where TensorBoard shows it; nothing is drawn for nobody."""
    if writers(logger) and (image := draw()) is not None:
        logger.record(name, Image(image, "HWC"), exclude=("stdout", "log", "json", "csv"))


def writers(logger: Logger) -> list[SummaryWriter]:
    """Return what writes for TensorBoard."""
    return [each.writer for each in logger.output_formats if isinstance(each, TensorBoardOutputFormat)]
