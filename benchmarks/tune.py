"""Search the settings of policies: `python -m benchmarks.tune [--workload NAME ...] [--policy NAME ...]`.

Every policy of `baselines/` with a `GRID` is tried on training windows of each workload, with equal budgets of
simulated events; validation windows select among the best. Test windows are not used. Results are written to
`baselines/tuned/`, one file per workload, where `python evaluate.py --policy tuned` reads them.

An event is an instant that a simulation handles, so that searches and learning can be given the same budget.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpu_cluster_gym import baselines
from gpu_cluster_gym.evaluation import run_folder
from gpu_cluster_gym.evaluation.each import each, in_order
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Policy, Ranking
from gpu_cluster_gym.traces import VERSION, stream
from gpu_cluster_gym.workloads import MAX_CANDIDATES, Split, Workload, accepted, named, windows
from gpu_cluster_gym.workloads import names as workload_names

COMMAND = "python -m benchmarks.tune"
FOLDER = Path(baselines.__file__).parent / "tuned"
BUDGET = 100_000  # simulated events
RUNS = 12  # runs of FIFO on all training windows within the budget, which sets the number of windows
MIN_WINDOWS, MAX_WINDOWS = 2, 40
REFERENCE = Ranking("submit")
ROUNDS = 3  # rounds of a search, with equal shares of the budget
GROWTH = 4  # factor of the number of windows between rounds
FINALISTS = 5  # settings that are validated, in addition to the default ones

Settings = dict[str, Any]
Grid = Mapping[str, Sequence[Any]]
Make = Callable[..., Policy]
"""Returns a new policy; keywords are settings."""


class Tried(NamedTuple):
    """Settings, their ratio of mean JCT to FIFO's in each window so far, and the events simulated for that."""

    settings: Settings
    ratios: tuple[float, ...] = ()
    events: int = 0

    @property
    def score(self) -> float:
        """The mean of the ratios."""
        return sum(self.ratios) / len(self.ratios)


class Outcome(NamedTuple):
    """The best settings of a search, all settings tried, in order, and those validated.

    `training` and `validation` start with the default settings, an empty dict.
    """

    best: Settings
    training: list[Tried]
    validation: list[Tried]

    @property
    def events(self) -> int:
        """Events simulated on training windows, which the budget limits."""
        return sum(each.events for each in self.training)


def search(
    make: Make,
    grid: Grid,
    training: Sequence[Workload],
    validation: Sequence[Workload],
    *,
    budget: int,
    seed: int = 0,
    processes: int = 1,
) -> Outcome:
    """Try the default settings and those of the grid within a budget of events.

    make, grid: the policy and its settings.
    training, validation: windows; validation selects among the default and the best after the last round of `race`.
    budget: events on training windows.
    seed: of the order of the settings.
    processes: processors; results do not depend on it.
    Raise ValueError for windows of other splits, or a budget too small for the default settings.
    """
    check_split(training, "train")
    check_split(validation, "validation")
    default, *others = race(Course(make, training, processes), grid, budget, seed)
    whole = [tried for tried in others if len(tried.ratios) == len(training)]
    few = sorted(whole, key=lambda tried: tried.score)[:FINALISTS]
    course = Course(make, validation, processes)
    validated = [course.run(Tried(tried.settings), len(validation)) for tried in (default, *few)]
    best = min(validated, key=lambda each: each.score)
    return Outcome(best.settings, [default, *others], validated)


class Course:
    """Windows, in order, on which policies are compared with FIFO."""

    def __init__(self, make: Make, workloads: Sequence[Workload], processes: int) -> None:
        """Run FIFO on all windows."""
        self.make, self.workloads, self._processes = make, workloads, processes
        self._usual = fifo(workloads, processes)

    def run(self, each: Tried, count: int) -> Tried:
        """Return the settings with their results on the first `count` windows; earlier results are kept."""
        done = len(each.ratios)
        jct, events = simulate(self.make, each.settings, self.workloads[done:count], self._processes)
        ratios = (jct / self._usual[done:count]).tolist()
        return Tried(each.settings, (*each.ratios, *ratios), each.events + int(events.sum()))


def race(course: Course, grid: Grid, budget: int, seed: int) -> list[Tried]:
    """Return all settings tried, with their results, the default first; it is run on all windows.

    Successive halving (Jamieson and Talwalkar, AISTATS 2016): the settings of the grid, in random order, are run on the
    first few windows, the best of them on more, then on all. A round ends where the next settings would exceed its
    share of the remaining budget. The race ends where no setting changes the results of the first round.
    """
    count = len(course.workloads)
    default = course.run(Tried({}), count)
    if (left := budget - default.events) < 0:
        raise ValueError(f"budget {budget:,}: expected at least the {default.events:,} events of one run")
    usual = course.make()
    others = [Tried(each) for each in candidates(grid, seed) if each and course.make(**each) != usual]
    tried: list[Tried] = []
    for later in reversed(range(ROUNDS)):
        windows, share = math.ceil(count / GROWTH**later), left // (later + 1)
        done = list(within(share, others, (course.run(each, windows) for each in others)))
        left -= sum(after.events - before.events for before, after in zip(others, done, strict=False))
        passed = {str(each.settings): each for each in done}
        tried = [passed.get(str(each.settings), each) for each in tried] or done
        if all(each.ratios == default.ratios[:windows] for each in done):
            break
        others = sorted(done, key=lambda each: each.score)
    return [default, *tried]


def within(budget: int, before: Sequence[Tried], found: Iterator[Tried]) -> Iterator[Tried]:
    """Yield results while their additional events stay within the budget."""
    for old, new in zip(before, found, strict=True):
        budget -= new.events - old.events
        if budget < 0:
            return
        yield new


def check_split(workloads: Sequence[Workload], split: Split) -> None:
    """Raise ValueError for windows of another split."""
    if wrong := [load.window for load in workloads if load.window.split != split]:
        raise ValueError(f"window {wrong[0]}: a search expects windows of the {split} split")


def candidates(grid: Grid, seed: int) -> Iterator[Settings]:
    """Yield the default settings, an empty dict, then every combination of the grid in random order."""
    yield {}
    sizes = [len(values) for values in grid.values()]
    for number in stream(seed, "settings").permutation(math.prod(sizes)).tolist() if sizes else ():
        places = np.unravel_index(number, sizes)
        yield {name: values[place] for (name, values), place in zip(grid.items(), places, strict=True)}


def fifo(workloads: Sequence[Workload], processes: int) -> np.ndarray:
    """Return FIFO's mean JCT in each window."""
    return simulate(lambda: REFERENCE, {}, workloads, processes)[0]


def simulate(
    make: Make, settings: Settings, workloads: Sequence[Workload], processes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean JCT and the events of each window under new policies with these settings."""
    tasks = [partial(counted, make, settings, load) for load in workloads]
    jct, events = np.array([*in_order(each(tasks, processes))], float).reshape(-1, 2).T
    return jct, events.astype(int)


def counted(make: Make, settings: Settings, workload: Workload) -> tuple[float, int]:
    """Return the mean JCT of a window under a new policy with these settings, and the events it took."""
    episode = run(make(**settings), workload.episode())
    return float(workload.results(episode)["jct_s"].mean()), int(episode.state.instant)


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
        events += counted(partial(made, REFERENCE), {}, load)[1]
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
    found = search(make, grid, *sampled, budget=budget, seed=seed, processes=processes)
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
