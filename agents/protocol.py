"""The protocol for trained agents: held-out windows, a ladder of policies, distribution shifts."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents import checkpoint
from gpu_cluster_gym.agents.checkpoint import policy_of
from gpu_cluster_gym.agents.initialization import constant_policy
from gpu_cluster_gym.agents.training import SteerTraining
from gpu_cluster_gym.envs.floors import FLOORS
from gpu_cluster_gym.evaluation import runner
from gpu_cluster_gym.evaluation.choices import workload_like
from gpu_cluster_gym.evaluation.comparison import (
    ESTIMATOR,
    PROFILE_RATIOS,
    AgentComparison,
    Comparison,
    compare_agents,
    compare_with_each,
)
from gpu_cluster_gym.evaluation.run_folder import BEST, CHOICES, agent_folder, run_of
from gpu_cluster_gym.evaluation.table_notes import FULL_WINDOWS, lever_off
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Policy
from gpu_cluster_gym.simulator.rule_policy import Rule
from gpu_cluster_gym.workloads import (
    FILES,
    Scenario,
    Workload,
    applicable,
    describe_shift,
    shifted,
    up_to,
    windows,
)

LADDER = (
    "fifo",
    "sjf",
    "srtf",
    "las",
    "xion",
    "xion_threshold",
    "xonar",
    "coda",
    "aiturbo",
    "union",
    "srtf_oracle",
)
"""Policies that agents are compared with, if their mechanism is simulated, and floors; the last is an oracle."""
START, KNOWING = "union", "union_oracle"
"""The reference, and the same with true run times."""
MEAN_ACTION = "mean_action"
UNSHIFTED, TRUTH = "no shift", "true_run_times"
WINDOWS, TIMED = 100, 3
Made = dict[str, Callable[[], Policy]]


class Candidate(NamedTuple):
    """An agent to judge.

    make: returns its policy.
    mean_action: its constant-action policy, where known.
    scenario, extra_workloads: what it was trained on, where known.
    folder: None for an agent of a module.
    missing: a file of the scenario, where no run folder has its path.
    """

    make: Callable[[], Policy]
    mean_action: Rule | None = None
    scenario: Scenario | None = None
    extra_workloads: tuple[str, ...] = ()
    folder: Path | None = None
    missing: str | None = None


def all_candidates(names: Sequence[str]) -> list[Candidate]:
    """Return the agents of several runs, folders and modules; ValueError for a missing or repeated one."""
    found = [each for name in names for each in candidates(name)]
    folders = [str(each.folder.resolve()) for each in found if each.folder]
    for named in (list(map(str, names)), folders):
        if twice := [each for each in named if named.count(each) > 1]:
            raise ValueError(f"--protocol names an agent twice: name {twice[0]} once")
    return found


def candidates(name: str | Path) -> list[Candidate]:
    """Return the best agents of a run, one per seed, the agent of a folder, or one by package.module:attribute.

    Raise ValueError where there is none.
    """
    folder = Path(name)
    if not folder.is_dir() and ":" in str(name):
        return [Candidate(partial(baselines.make, baselines.load(str(name))))]
    if not folder.is_dir():
        raise ValueError(
            f"--protocol {folder}: no such folder; expected that of a run of train_agent.py, or module:attribute"
        )
    several = sorted(folder.glob(f"seed-*/{BEST}"))
    return [of_folder(each) for each in several or [agent_folder(folder)]]


def of_folder(folder: Path) -> Candidate:
    """Return the agent of a folder."""
    agent, noted = checkpoint.load(folder), checkpoint.about(folder)
    constant = constant_policy(agent, noted.get("validation", {}))
    extra = agent.training.extra_workloads if isinstance(agent.training, SteerTraining) else ()
    paths = paths_of_run(folder)
    own: Any = {name: path for name, path in paths.items() if path}
    scenario = replace(agent.scenario, **own)
    others = [value for name in FILES if (value := getattr(scenario, name)) and not paths.get(name)]
    missing = next((each for each in others if each == scenario.trace_file or Path(each).is_file()), None)
    return Candidate(partial(policy_of, agent), constant, scenario, extra, folder, missing)


def paths_of_run(folder: Path) -> dict[str, str | None]:
    """Return the files of the scenario of the run that an agent is in; none for an agent elsewhere.

    An agent's own file has only their names, and may not choose what is opened.
    """
    run = run_of(folder.resolve())
    run = run.parent if re.fullmatch(r"seed-\d+", run.name) else run
    try:
        scenario = json.loads((run / CHOICES).read_text(encoding="utf-8"))["scenario"]
        return {name: scenario[name] for name in FILES}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def trained_on(found: Sequence[Candidate]) -> Scenario | None:
    """Return the scenario that agents were trained on, None where unknown; ValueError for different ones, or files."""
    known = [each.scenario for each in found if each.scenario]
    if any(each != known[0] for each in known):
        raise ValueError(
            "--protocol: these agents were trained on different scenarios: name one with --workload"
        )
    if missing := next((each.missing for each in found if each.missing), None):
        raise ValueError(
            f"--protocol: the agent was trained with the file {missing}: name it with --trace-file, --cluster, "
            "--run-time-predictor or --quotas, whichever it belongs to"
        )
    return known[0] if known else None


def windows_for(scenario: Scenario, count: int | None) -> list[Workload]:
    """Return `count` test windows of a scenario, by default 100 or as many as there are; ValueError for none."""
    return windows(scenario, "test", count) if count else up_to(scenario, "test", WINDOWS)


class Judged(NamedTuple):
    """The results of the protocol.

    against: judgements by policy.
    to_bound: mean JCT of the agents / the lower bound.
    closed: share of `union`'s gap to the bound that each policy closes.
    shifts: ratio and interval against `union` and the best policy, by shift.
    seconds: CPU seconds per window, by policy.
    summaries: one row per window, by policy.
    """

    against: dict[str, AgentComparison]
    to_bound: Comparison
    closed: dict[str, float]
    shifts: dict[str, dict[str, tuple[float, float, float]]]
    seconds: dict[str, float]
    summaries: dict[str, pd.DataFrame]


class Judging:
    """Agents and the policies they are compared with."""

    def __init__(
        self,
        found: Sequence[Candidate],
        workloads: Sequence[Workload],
        *,
        extra: Mapping[str, Policy | type] = MappingProxyType({}),
        processes: int = 1,
    ) -> None:
        """Prepare the simulations.

        found: agents.
        workloads: windows.
        extra: policies in addition to the ladder and the results of searches.
        processes: processors; results do not depend on it.
        """
        scenario = workloads[0].scenario
        self.workloads, self.processes = workloads, processes
        self.shifts = applicable(scenario)
        self.agents: Made = {f"agent_{k}": each.make for k, each in enumerate(found)}
        self.mean_action: Made = {
            f"{MEAN_ACTION}_{k}": partial(baselines.make, each.mean_action)
            for k, each in enumerate(found)
            if each.mean_action
        }
        others: dict[str, Policy | type] = {
            name: baselines.load(name) for name in LADDER if not lever_off(name, workloads)
        }
        others |= FLOORS
        for each in baselines.found_for(workload_like(scenario), with_history=scenario.with_history):
            others[each.label] = baselines.load(each)
        self.others: Made = {
            name: partial(baselines.make, other) for name, other in (others | dict(extra)).items()
        }

    def judge(self, moved: Callable[[int], None]) -> Judged:
        """Run all simulations, shifts on a fifth of the windows; call `moved` after each simulation."""
        workloads = self.workloads
        summaries = self._play(self.agents | self.mean_action | self.others, workloads, moved)
        knowing = [shifted(each, TRUTH) for each in workloads if self.can_know]
        summaries |= self._play({KNOWING: self.others[START]}, knowing, moved) if knowing else {}
        ours = [summaries[name] for name in self.agents]
        others: dict[str, Any] = {
            name: each for name, each in summaries.items() if name not in self.agents | self.mean_action
        }
        if len(self.mean_action) == len(ours):
            others = {MEAN_ACTION: [summaries[name] for name in self.mean_action]} | others
        few = workloads[: self.shifted_windows(len(workloads))]
        shifts = {UNSHIFTED: self._shift(few, moved)} | {
            describe_shift(shift): self._shift([shifted(each, shift) for each in few], moved)
            for shift in self.shifts
        }
        bounds = runner.bounds(workloads)
        closed = runner.gaps_closed(summaries, bounds, START)
        seconds = self._seconds(workloads[:TIMED])
        to_bound = compare_agents(ours, [bounds] * len(ours))
        return Judged(compare_with_each(ours, others), to_bound, closed, shifts, seconds, summaries)

    @property
    def can_know(self) -> bool:
        """Whether run times are estimates, so that true ones make a difference."""
        return bool(applicable(self.workloads[0].scenario, (TRUTH,)))

    @property
    def simulations(self) -> int:
        """Number of simulations."""
        windows = len(self.workloads)
        once = len(self.agents | self.mean_action | self.others) + self.can_know
        again = len(self.agents | self._on_shifts)
        return once * windows + again * (1 + len(self.shifts)) * self.shifted_windows(windows)

    @staticmethod
    def shifted_windows(windows: int) -> int:
        """Return the number of windows, out of `windows`, on which the shifts are tried."""
        return max(2, windows // 5) if windows > 1 else 1

    @property
    def _on_shifts(self) -> Made:
        return {name: made for name, made in self.others.items() if not runner.is_oracle(name)}

    def _play(
        self, makers: Made, workloads: Sequence[Workload], moved: Callable[[int], None]
    ) -> dict[str, pd.DataFrame]:
        tables = runner.simulate(
            makers, workloads, processes=self.processes, done=lambda name, table: moved(1)
        )
        return runner.score(tables, workloads)

    def _shift(
        self, workloads: Sequence[Workload], moved: Callable[[int], None]
    ) -> dict[str, tuple[float, float, float]]:
        """Return the agents' mean JCT relative to `union` and to the best policy there, with intervals."""
        others = self._on_shifts
        summaries = self._play(self.agents | others, workloads, moved)
        ours = [summaries[name] for name in self.agents]
        best = min(others, key=lambda name: float(summaries[name]["mean_jct_s"].mean()))
        found = {}
        for name in dict.fromkeys((START, best)):
            ratio = compare_agents(ours, [summaries[name]] * len(ours))
            found[name] = (ratio.ratio, ratio.low, ratio.high)
        return found

    def _seconds(self, workloads: Sequence[Workload]) -> dict[str, float]:
        """Return the CPU seconds per window, simulation included, without the first window."""
        first = next(iter(self.agents))
        found = {}
        for name, make in {first: self.agents[first], **self.others}.items():
            spent = []
            for each in workloads:
                episode, began = each.episode(), time.process_time()
                run(make(), episode, oracle=runner.is_oracle(name))
                spent.append(time.process_time() - began)
            found[name] = float(np.mean(spent[1:] or spent))
        return found


def lines(found: Judged, count: int) -> Iterator[str]:
    """Yield the result in short: one line per policy, and a legend."""
    windows = next(iter(found.against.values())).windows
    of = f"{count} agents" if count > 1 else "the agent"
    yield f"{'policy':<22}{'JCT ratio':>10} {'95 % interval':>14}{'wins':>6}{'p, Holm':>10}"
    for name, each in found.against.items():
        mean = each.mean
        yield (
            f"{name:<22}{mean.ratio:10.3f} {f'{mean.low:.3f}-{mean.high:.3f}':>14}{each.wins:6d}{each.p_holm:10.2g}"
        )
    yield ""
    narrow = "; too few windows for reliable intervals" if windows < FULL_WINDOWS else ""
    yield f"JCT ratio: mean JCT of {of} / that of the policy on {windows} test windows, {ESTIMATOR};"
    yield f"below 1 is better{narrow}."
    yield "fifo follows the scenario's discipline: greedy, the default, skips jobs that do not fit."
    yield f"Mean JCT of {of} / a lower bound for any schedule: {interval(found.to_bound)}."


def details(found: Judged, count: int) -> Iterator[str]:
    """Yield the rest of the result: interquartile means, gaps to the bound, profiles, shifts and CPU time."""
    windows = next(iter(found.against.values())).windows
    if MEAN_ACTION not in found.against:
        yield "Without constant-action policies: they are not known for all agents."
        yield ""
    over = "windows and agents" if count > 1 else "windows"
    yield f"Interquartile mean of the ratios (IQM), with 95 % interval over {over}"
    for name, each in found.against.items():
        yield f"{name:<22}{each.iqm.ratio:6.3f} {each.iqm.low:6.3f}-{each.iqm.high:.3f}"
    if found.closed:
        yield ""
        yield f"Share of the gap between {START} and the lower bound that is closed, where positive"
        yield from (f"{name:<22}{share:8.1%}" for name, share in found.closed.items() if share > 0)
    yield ""
    yield "Share of the agents' windows with a ratio of at most"
    yield f"{'policy':<22}" + "".join(f"{level:>8g}" for level in PROFILE_RATIOS)
    for name, each in found.against.items():
        yield f"{name:<22}" + "".join(f"{share:8.2f}" for share in each.profile)
    yield ""
    yield f"Under shifts, on {Judging.shifted_windows(windows)} of the windows"
    yield f"{'':<38}{f'against {START}':<24}against the best policy there"
    for shift, ratios in found.shifts.items():
        cells = {name: f"{it[0]:.3f} ({it[1]:.3f}-{it[2]:.3f})" for name, it in ratios.items()}
        best = next((f"{cell}  {name}" for name, cell in cells.items() if name != START), "the same")
        yield f"{shift:<38}{cells[START]:<24}{best}"
    yield ""
    yield "CPU seconds per window on this machine, simulation included"
    yield from (f"{name:<22}{seconds:8.3f}" for name, seconds in found.seconds.items())


def interval(ratio: Comparison) -> str:
    """Return a ratio with its interval."""
    return f"{ratio.ratio:.3f} ({ratio.low:.3f}-{ratio.high:.3f})"


def document(found: Judged) -> dict[str, Any]:
    """Return the results as plain JSON."""
    return {
        "against": {
            name: each._asdict() | {"mean": each.mean._asdict(), "iqm": each.iqm._asdict()}
            for name, each in found.against.items()
        },
        "to_bound": found.to_bound._asdict(),
        "gap_closed": found.closed,
        "profile_levels": PROFILE_RATIOS,
        "shifts": found.shifts,
        "cpu_seconds_per_window": found.seconds,
        "by_window": {name: each.to_dict("records") for name, each in found.summaries.items()},
    }
