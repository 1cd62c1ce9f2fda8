"""Agents of a run judged: on windows that none has seen, beside the ladder of policies, as it is and under shifts."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents import checkpoint
from gpu_cluster_gym.agents.initialization import held
from gpu_cluster_gym.agents.learned import policy_of
from gpu_cluster_gym.evaluation import runner
from gpu_cluster_gym.evaluation.choices import workload_like
from gpu_cluster_gym.evaluation.comparison import (
    PROFILE_RATIOS,
    AgentComparison,
    Comparison,
    compare_agents,
    compare_with_each,
)
from gpu_cluster_gym.evaluation.run_folder import BEST, agent_folder
from gpu_cluster_gym.evaluation.table_notes import FULL_WINDOWS, lever_off
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Policy
from gpu_cluster_gym.simulator.rule_policy import Rule
from gpu_cluster_gym.workloads import Scenario, Workload, applicable, describe_shift, shifted, up_to, windows

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
"""What agents are compared with where its lever is there, from the simplest to the strongest; the last is an oracle."""
START, KNOWING = "union", "union_oracle"
"""What all are compared with, and the same where it knows run times."""
MEAN_ACTION = "its mean action, held"
AS_IT_IS, TRUTH = "as it is", "true_run_times"
WINDOWS, TIMED = 100, 3
Made = dict[str, Callable[[], Policy]]


class Candidate(NamedTuple):
    """What makes an agent's policy; where known, what always does as it does on average, and what it learned on.

    also: the workloads on which it learned besides. folder: where it is; None of one of a module.
    """

    make: Callable[[], Policy]
    held: Rule | None = None
    scenario: Scenario | None = None
    also: tuple[str, ...] = ()
    folder: Path | None = None


def all_candidates(names: Sequence[str]) -> list[Candidate]:
    """Return the agents of several runs, folders and modules; ValueError where one is named twice, or is not there."""
    found = [each for name in names for each in candidates(name)]
    folders = [each.folder.resolve() for each in found if each.folder]
    if len(set(names)) < len(names) or len(set(folders)) < len(folders):
        raise ValueError("--protocol: an agent is named twice, which is one seed and not two")
    return found


def candidates(name: str | Path) -> list[Candidate]:
    """Return the best agents of a run, one for each seed, the agent of a folder, or one by package.module:attribute.

    ValueError where there is none.
    """
    folder = Path(name)
    if not folder.is_dir() and ":" in str(name):
        return [Candidate(partial(baselines.make, baselines.load(str(name))))]
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    several = sorted(folder.glob(f"seed-*/{BEST}"))
    return [of_folder(each) for each in several or [agent_folder(folder)]]


def of_folder(folder: Path) -> Candidate:
    """Return the agent of a folder."""
    agent, noted = checkpoint.load(folder), checkpoint.about(folder)
    on_average = held(agent, noted.get("validation", {}))
    return Candidate(partial(policy_of, agent), on_average, agent.scenario, agent.training.also, folder)


def learned_on(found: Sequence[Candidate]) -> Scenario | None:
    """Return what agents learned on, None where that is not known; ValueError where it is not the same for all."""
    known = [each.scenario for each in found if each.scenario]
    if any(each != known[0] for each in known):
        raise ValueError(
            "these agents learned on different scenarios: name one to judge them on, as --workload"
        )
    return known[0] if known else None


def windows_for(scenario: Scenario, count: int | None) -> list[Workload]:
    """Return so many test windows of a scenario, else a hundred, or all of a log with fewer; ValueError for none."""
    return windows(scenario, "test", count) if count else up_to(scenario, "test", WINDOWS)


class Judged(NamedTuple):
    """What came of it: judgements by policy, the same under each shift against some, and seconds a window.

    to_bound: the agents' mean JCT / the lower bound. closed: the share of `union`'s gap to it that each policy closes.
    """

    against: dict[str, AgentComparison]
    to_bound: Comparison
    closed: dict[str, float]
    shifts: dict[str, dict[str, tuple[float, float, float]]]
    seconds: dict[str, float]
    summaries: dict[str, pd.DataFrame]


class Judging:
    """Agents and the policies that they are compared with."""

    def __init__(
        self,
        found: Sequence[Candidate],
        workloads: Sequence[Workload],
        *,
        besides: Mapping[str, Policy | type] = MappingProxyType({}),
        processes: int = 1,
    ) -> None:
        """Take agents, the windows to judge them on, and policies besides the ladder and what searches found."""
        scenario = workloads[0].scenario
        self.workloads, self.processes = workloads, processes
        self.shifts = applicable(scenario)
        self.agents: Made = {f"agent_{k}": each.make for k, each in enumerate(found)}
        self.held: Made = {
            f"held_{k}": partial(baselines.make, each.held) for k, each in enumerate(found) if each.held
        }
        others = {name: baselines.load(name) for name in LADDER if not lever_off(name, workloads)}
        for each in baselines.found_for(workload_like(scenario), with_history=scenario.with_history):
            others[each.label] = baselines.load(each)
        self.others: Made = {
            name: partial(baselines.make, other) for name, other in (others | dict(besides)).items()
        }

    def judge(self, moved: Callable[[int], None]) -> Judged:
        """Play all; `moved` is told of each simulation that has ended. The shifts take a fifth of the windows."""
        workloads = self.workloads
        summaries = self._play(self.agents | self.held | self.others, workloads, moved)
        knowing = [shifted(each, TRUTH) for each in workloads if self.can_know]
        summaries |= self._play({KNOWING: self.others[START]}, knowing, moved) if knowing else {}
        ours = [summaries[name] for name in self.agents]
        others: dict[str, Any] = {
            name: each for name, each in summaries.items() if name not in self.agents | self.held
        }
        if len(self.held) == len(ours):
            others = {MEAN_ACTION: [summaries[name] for name in self.held]} | others
        few = workloads[: self.shifted_windows(len(workloads))]
        shifts = {AS_IT_IS: self._shift(few, moved)} | {
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
        """Whether run times are estimated, so that knowing them would be something else."""
        return bool(applicable(self.workloads[0].scenario, (TRUTH,)))

    @property
    def simulations(self) -> int:
        """How many simulations it takes."""
        windows = len(self.workloads)
        once = len(self.agents | self.held | self.others) + self.can_know
        again = len(self.agents | self._on_shifts)
        return once * windows + again * (1 + len(self.shifts)) * self.shifted_windows(windows)

    @staticmethod
    def shifted_windows(windows: int) -> int:
        """Return on how many of so many windows the shifts are tried."""
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
        """Return the agents' mean JCT / that of `union` and of the best policy there, with its interval."""
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
        """Return the processor seconds of a window, the simulation's own among them, the first window left out."""
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


def too_few(windows: int) -> Iterator[str]:
    """Say so where intervals over so many windows are too narrow."""
    if windows < FULL_WINDOWS:
        yield f"Over fewer than {FULL_WINDOWS} windows an interval is too narrow."


def told(ratio: Comparison) -> str:
    """Write out a ratio with its interval."""
    return f"{ratio.ratio:.3f} ({ratio.low:.3f}-{ratio.high:.3f})"


def lines(found: Judged, count: int) -> Iterator[str]:
    """Yield what is printed of a judgement of so many agents."""
    windows = next(iter(found.against.values())).windows
    of = f"{count} agents" if count > 1 else "the agent"
    yield f"Mean JCT of {of} / that of each on {windows} test windows; below 1 is better."
    yield f"95 % intervals over windows{' and agents' if count > 1 else ''}; IQM: mean of the middle half."
    yield from too_few(windows)
    if MEAN_ACTION not in found.against:
        yield "Without what always does what an agent does on average: it is not known of all of them."
    yield ""
    yield f"{'against':<22}{'mean':>6} {'interval':>12} {'IQM':>6} {'interval':>12}{'wins':>6}{'p, Holm':>10}"
    for name, each in found.against.items():
        mean, iqm = (f"{it.ratio:6.3f} {it.low:6.3f}-{it.high:.3f}" for it in (each.mean, each.iqm))
        yield f"{name:<22}{mean} {iqm}{each.wins:6d}{each.p_holm:10.2g}"
    yield ""
    yield f"Mean JCT of {of} / a lower bound that no schedule beats: {told(found.to_bound)}"
    if found.closed:
        yield f"Share of the gap between {START} and the bound that is closed, where any is"
        yield from (f"{name:<22}{share:8.1%}" for name, share in found.closed.items() if share > 0)
    yield ""
    yield "Share of the agents' windows with a ratio of at most"
    yield f"{'against':<22}" + "".join(f"{level:>8g}" for level in PROFILE_RATIOS)
    for name, each in found.against.items():
        yield f"{name:<22}" + "".join(f"{share:8.2f}" for share in each.profile)
    yield ""
    few = Judging.shifted_windows(windows)
    yield f"Under shifts, on {few} of the windows"
    yield from too_few(few)
    yield f"{'':<38}{f'against {START}':<24}against the best policy there"
    for shift, ratios in found.shifts.items():
        cells = {name: f"{it[0]:.3f} ({it[1]:.3f}-{it[2]:.3f})" for name, it in ratios.items()}
        best = next((f"{cell}  {name}" for name, cell in cells.items() if name != START), "the same")
        yield f"{shift:<38}{cells[START]:<24}{best}"
    yield ""
    yield "Processor seconds a window on this machine, the simulation's own included"
    yield from (f"{name:<22}{seconds:8.3f}" for name, seconds in found.seconds.items())


def document(found: Judged) -> dict[str, Any]:
    """Return a judgement as plain JSON."""
    return {
        "against": {
            name: each._asdict() | {"mean": each.mean._asdict(), "iqm": each.iqm._asdict()}
            for name, each in found.against.items()
        },
        "to_bound": found.to_bound._asdict(),
        "gap_closed": found.closed,
        "profile_levels": PROFILE_RATIOS,
        "shifts": found.shifts,
        "seconds_a_window": found.seconds,
        "by_window": {name: each.to_dict("records") for name, each in found.summaries.items()},
    }
