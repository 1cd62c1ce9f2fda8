"""Offline data: episodes of schedulers in the environment of `train_agent.py`, as Minari data sets.

    gpu-cluster-gym record fifo sjf srtf random runs/ppo-philly --workload quick

The schedulers see what an agent sees, so that an agent can learn from them. `fifo` and `sjf` start the first and the
shortest job that fits; `srtf` also displaces longer ones (`agents.imitation.shortest_first`); `random` takes random
legal actions; a folder is an agent of `--action plain`.
"""

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from gpu_cluster_gym.agents import checkpoint
from gpu_cluster_gym.agents.imitation import shortest_first
from gpu_cluster_gym.agents.set_network import SetNetwork
from gpu_cluster_gym.agents.training import PlainTraining
from gpu_cluster_gym.envs.agent_policy import allowed
from gpu_cluster_gym.envs.windows import WORKLOAD, prepare
from gpu_cluster_gym.evaluation import command
from gpu_cluster_gym.evaluation.run_folder import agent_folder, agent_name
from gpu_cluster_gym.simulator.kernel.slots.features import ESTIMATE, FITS, QUEUE_FEATURES
from gpu_cluster_gym.traces import stream, unknown

if TYPE_CHECKING:
    from minari import MinariDataset
    from minari.data_collector import EpisodeBuffer

COMMAND = "gpu-cluster-gym record"
FOLDER = "runs/minari"
SEED = 0
Act = Callable[[NDArray[np.float32], NDArray[np.bool_]], int]
"""Map an observation (n,) and the legal actions (actions,) to an action."""


def start_first(
    seen: NDArray[np.float32], legal: NDArray[np.bool_], *, column: int | None, slots: int
) -> int:
    """Return the start of the job with the least value of a queue feature among those that fit, else the wait.

    column: index of the feature; None is the order of arrival.
    """
    queue = seen[: slots * len(QUEUE_FEATURES)].reshape(slots, -1)
    order = np.arange(slots) if column is None else queue[:, column]
    fits = legal[:slots] & (queue[:, FITS] > 0)
    return int(np.where(fits, order, np.inf).argmin()) if fits.any() else len(legal) - 1


def scheduler(name: str, gpus: int) -> tuple[Act, dict[str, Any]]:
    """Return a scheduler by its name or an agent's folder, and its environment's keywords for observations and actions.

    gpus: number of GPUs of the cluster. Raise ValueError for an unknown name, or an agent of another action kind.
    """
    training = PlainTraining()
    slots, rng = training.queue_slots, stream(SEED, "actions")
    known: dict[str, Act] = {
        "fifo": partial(start_first, column=None, slots=slots),
        "sjf": partial(start_first, column=ESTIMATE, slots=slots),
        "srtf": lambda seen, legal: shortest_first(seen, slots, gpus),
        "random": lambda seen, legal: int(rng.choice(np.flatnonzero(legal))),
    }
    if name in known:
        return known[name], training.environment()
    if not (folder := agent_folder(Path(name))).is_dir():
        raise ValueError(unknown("scheduler", name, (*known, "the folder of an agent")))
    network, trained = (agent := checkpoint.load(folder)).network, agent.training
    if not isinstance(network, SetNetwork) or not isinstance(trained, PlainTraining):
        raise ValueError(
            f"{name}: the agent has --action {trained.action}; only agents of --action plain are recorded"
        )
    generator = torch.Generator().manual_seed(SEED)

    def act(seen: NDArray[np.float32], legal: NDArray[np.bool_]) -> int:
        return int(network.choose(torch.from_numpy(seen)[None], generator))

    return act, trained.environment()


def episode(act: Act, env: gymnasium.Env[Any, Any], window: int) -> "EpisodeBuffer":
    """Play a window to its end, and return it."""
    from minari.data_collector import EpisodeBuffer

    seen, info = env.reset(options={"window": window})
    one = EpisodeBuffer(window, observations=[seen], actions=[])
    while not any(one.terminations[-1:] + one.truncations[-1:]):
        legal = info["action_mask"] > 0
        action = allowed(act(seen, legal), legal, illegal="next_legal")
        seen, reward, terminated, truncated, info = env.step(action)
        kept = one.actions, one.observations, one.rewards, one.terminations, one.truncations
        for column, value in zip(kept, (action, seen, reward, terminated, truncated), strict=True):
            column.append(value)
    return one


def record(name: str, windows: Mapping[str, Any], count: int, data: str) -> "MinariDataset":
    """Record a scheduler in the first training windows, in a new data set in place of one of the same name.

    name: a scheduler or an agent's folder. windows: keywords of the environment that define its windows, `workload` or
    `scenario`. count: number of windows. data: name of the data set.
    """
    import minari

    cluster = prepare(windows.get("scenario"), windows.get("workload"), "train", count)[0].workload.cluster
    act, acting = scheduler(name, cluster.num_gpus)
    env = gymnasium.make("gpu_cluster_gym:GPUCluster-v2", **windows, **acting, count=count)
    played = [episode(act, env, window) for window in env.get_wrapper_attr("windows")]
    if data in minari.list_local_datasets():
        minari.delete_dataset(data)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`.*` is set to None")
        return minari.create_dataset_from_buffers(data, played, env, env, name, description=__doc__)


def main(args: Sequence[str] | None = None) -> int:
    """Record the schedulers that the arguments name; return the exit code, 2 for a wrong argument."""
    return command.run(COMMAND, work, args)


def work(args: Sequence[str]) -> None:
    """Write a data set for each scheduler, and print a line about it."""
    parser = argparse.ArgumentParser(
        COMMAND,
        description="Record episodes of schedulers as Minari data sets, in MINARI_DATASETS_PATH or runs/minari; "
        "replace those of the same scheduler and workload.",
    )
    parser.add_argument(
        "schedulers",
        nargs="+",
        help="fifo, sjf, srtf, random (random legal actions), or the folders of agents trained with --action plain",
    )
    parser.add_argument("--workload", default=WORKLOAD, help=f"workload; default: {WORKLOAD}")
    parser.add_argument("--windows", type=int, default=16, help="number of training windows; default: 16")
    chosen = parser.parse_args(list(args))
    if find_spec("minari") is None or find_spec("h5py") is None:
        raise ValueError(
            'data sets require minari and h5py, not installed here: run pip install -e ".[minari]" in the clone'
        )
    os.environ.setdefault("MINARI_DATASETS_PATH", os.path.abspath(FOLDER))
    for name in chosen.schedulers:
        short = agent_name(agent_folder(Path(name))) if Path(name).is_dir() else name
        data = record(
            name, {"workload": chosen.workload}, chosen.windows, f"gpu-cluster/{chosen.workload}/{short}-v0"
        )
        returns = np.mean([each.rewards.sum() for each in data])
        command.log(
            f"{data.id}: {data.total_episodes} episodes, {data.total_steps:,} steps, mean return {returns:.2f}"
        )


if __name__ == "__main__":
    sys.exit(main())
