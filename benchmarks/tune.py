"""Search the settings of policies: `python -m benchmarks.tune [--workload NAME ...] [--policy NAME ...]`.

Every policy of `baselines/` with a `GRID` is tried on training windows of each workload, with equal budgets of
simulated events; validation windows select among the best. Test windows are not used. Results are written to
`baselines/tuned/`, one file per workload, where `python evaluate.py --policy tuned` reads them.
"""

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from gpu_cluster_gym import baselines
from gpu_cluster_gym.evaluation import run_folder, search
from gpu_cluster_gym.simulator.policy import Policy
from gpu_cluster_gym.traces import VERSION
from gpu_cluster_gym.workloads import MAX_CANDIDATES, Workload, accepted, named, windows
from gpu_cluster_gym.workloads import names as workload_names

COMMAND = "python -m benchmarks.tune"
FOLDER = Path(baselines.__file__).parent / "tuned"
BUDGET = 100_000  # simulated events
RUNS = 12  # runs of FIFO on all training windows within the budget, which sets the number of windows
MIN_WINDOWS, MAX_WINDOWS = 2, 40


class Sample(NamedTuple):
    """The windows of a workload on which policies are tuned."""

    training: list[Workload]
    validation: list[Workload]


def sample(workload: str, budget: int, seed: int) -> Sample:
    """Return the training windows that FIFO can run with 1 / `RUNS` of the budget, and equally many for validation."""
    scenario = replace(named(workload), seed=seed)
    training: list[Workload] = []
    events = 0
    for load in islice(accepted(scenario, "train", most=MAX_WINDOWS * MAX_CANDIDATES), MAX_WINDOWS):
        events += search.counted(partial(made, search.REFERENCE), {}, load)[1]
        if events > budget // RUNS and len(training) >= MIN_WINDOWS:
            break
        training.append(load)
    return Sample(training, windows(scenario, "validation", len(training)))


def made(policy: "Policy | type", **settings: Any) -> Policy:
    """Return a new policy with these settings."""
    return baselines.make(baselines.vary(policy, **settings))


def tune(name: str, sampled: Sample, budget: int, seed: int, processes: int) -> dict[str, Any]:
    """Search the grid of a policy and return its entry of the file."""
    grid = baselines.grid(name)
    make = partial(made, baselines.load(name))
    found = search.search(make, grid, *sampled, budget=budget, seed=seed, processes=processes)
    training, validation = (
        next(trial for trial in trials if trial.settings == found.best)
        for trials in (found.training, found.validation)
    )
    return {
        "settings": found.best,
        "training": training.score,
        "validation": validation.score,
        "default": {"training": found.training[0].score, "validation": found.validation[0].score},
        "settings_tried": len(found.training) - 1,  # without the default
        "settings_on_all_windows": sum(len(each.ratios) == len(sampled.training) for each in found.training)
        - 1,
        "settings_in_grid": math.prod(map(len, grid.values())),
        "events": found.events,
    }


def tune_all(workload: str, names: Sequence[str], chosen: argparse.Namespace) -> None:
    """Tune policies for a workload, print the results, and add them to the file of the workload."""
    on = sample(workload, chosen.budget, chosen.seed)
    print(f"{workload}: {len(on.training)} training and {len(on.validation)} validation windows", flush=True)
    file = Path(chosen.out) / f"{workload}.json"
    before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    kept = before["policies"] if before.get("streams") == VERSION else {}  # entries of the same windows
    for name in names:
        try:
            kept[name] = tune(name, on, chosen.budget, chosen.seed, chosen.processes)
        except (ValueError, RuntimeError) as error:
            print(f"  {name:16s} cannot be tuned: {error}", flush=True)
            continue
        print(f"  {name:16s} {line(kept[name])}", flush=True)
        write(file, workload, on, dict(sorted(kept.items())), chosen)


def write(
    file: Path, workload: str, on: Sample, policies: dict[str, Any], chosen: argparse.Namespace
) -> None:
    """Write the file of a workload."""
    document = {
        "command": f"{COMMAND} --workload {workload} --budget {chosen.budget} --seed {chosen.seed}",
        "workload": workload,
        "seed": chosen.seed,
        "streams": VERSION,
        "budget": chosen.budget,
        "windows": {"training": len(on.training), "validation": len(on.validation)},
        "score": "mean over windows of mean JCT / FIFO's",
        "best": min(policies, key=lambda name: policies[name]["validation"]),
        "policies": policies,
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    run_folder.write_json(file, document)


def line(found: dict[str, Any]) -> str:
    """Return the result of a policy as a line."""
    settings = ", ".join(f"{key}={value}" for key, value in found["settings"].items()) or "default settings"
    scores = [f"{each['training']:.3f} {each['validation']:.3f}" for each in (found["default"], found)]
    tried = (
        f"{found['settings_tried']} of {found['settings_in_grid']} others, {found['settings_on_all_windows']} on all "
        f"windows, {found['events']:,} events"
    )
    return f"{scores[0]} -> {scores[1]}  {settings}  ({tried})"


def main(args: Sequence[str] | None = None) -> None:
    """Tune policies for workloads, and print scores with default and best settings."""
    workloads = workload_names()
    tunable = [name for name in baselines.names() if baselines.grid(name)]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", nargs="+", choices=workloads, default=workloads, help="default: all")
    parser.add_argument("--policy", nargs="+", choices=tunable, default=tunable, help="default: all")
    parser.add_argument(
        "--budget", type=int, default=BUDGET, help="simulated events per policy, on training windows"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the windows and of the order of settings"
    )
    parser.add_argument("--processes", type=int, default=1, help="processors; results do not depend on it")
    parser.add_argument("--out", default=str(FOLDER), help="folder to write to")
    chosen = parser.parse_args(args)
    print("mean JCT / FIFO's, on training and validation windows: default settings -> best settings")
    for workload in chosen.workload:
        tune_all(workload, chosen.policy, chosen)


if __name__ == "__main__":
    main()
