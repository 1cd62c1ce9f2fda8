"""Can single moves be learned from? Gain and noise of moves that deviate from the constants' own choices.

`python -m benchmarks.room_moves [--workload NAME ...] [--windows 8] [--decisions 8] [--futures 16] [--write]`
plays training windows by the constants of each workload, or by `union` where none were searched. At some decisions the
moves listed are compared with the rule's own choice in simulated futures, which draw run times from their estimates and
have no arrivals. The best of them, and another at random, are then made once in the true future of the window, after
which the rule decides to the end. All gains are in job-seconds, without discount. In steady windows the true gain is
that of the jobs that count, which are the score, and the simulated gain that of all jobs present.

A winner is a best move whose simulated gain exceeds two standard errors. *Samples* is the number of futures in which
its gain would exceed two standard errors, (2 x noise / gain)^2, true or simulated. The correlation is between the
simulated and the true gains of all moves tried: without it, simulated futures do not predict which moves gain in the
true one.

`--write` keeps the results in docs/room_moves.csv, next to those of other workloads; docs/workloads.md has the
correlations.
"""

import argparse
import copy
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.room import ROOT, rule_of
from gpu_cluster_gym.envs.moves import MovesEnv
from gpu_cluster_gym.evaluation.each import each, in_order
from gpu_cluster_gym.workloads import names as workload_names

FILE = "room_moves"


class Tried(NamedTuple):
    """A move in simulated futures and in the true one, job-seconds.

    best: whether it was the best of its list. gain, noise: mean over simulated futures, and their standard deviation.
    """

    kind: str
    best: bool
    gain: float
    noise: float
    futures: int
    true_gain: float

    @property
    def wins(self) -> bool:
        """Whether it is the best of its list and its simulated gain exceeds two standard errors."""
        return self.best and self.gain > 2 * self.noise / math.sqrt(self.futures)


class Row(NamedTuple):
    """Moves of a workload; the module's docstring describes the columns.

    decisions: number of decisions at which moves were compared. winners: number of winners. kinds: their most
    frequent kinds.
    """

    workload: str
    decisions: int
    winners: int
    kinds: str
    gain: float
    true_gain: float
    noise: float
    true_noise: float
    samples: float
    true_samples: float
    correlation: float


def tried_in(
    workload: str, scenario: dict[str, Any], window: int, count: int, decisions: int, futures: int
) -> list[Tried]:
    """Return the moves tried in a training window, one of `count`, at `decisions` evenly spaced decisions."""
    choices: dict[str, Any] = {"default_weights": vars(rule_of(workload)), "futures": futures, "tau_s": None}
    env = MovesEnv(scenario, workload=workload, count=count, **choices)
    env.reset(options={"window": env.windows[window]})
    own_s, steps = to_the_end(copy.deepcopy(env))
    at = set(np.linspace(0, steps - 1, decisions, dtype=int).tolist())
    rng, found = np.random.default_rng(window), []
    for number in range(steps):
        if number in at:
            found += list(tried_at(env, own_s, futures, rng))
        env.step(own_move(env))
    return found


def own_move(env: MovesEnv) -> int:
    """Return the rule's own choice."""
    return int(env.batch.lists["own"][0])


def to_the_end(env: MovesEnv) -> tuple[float, int]:
    """Play the rule's own choices to the end; return the job-seconds of jobs that count, and the number of steps."""
    steps = 0
    while not env.batch.over[0]:
        env.step(own_move(env))
        steps += 1
    counted = env.workload.counted
    jct_s = env.batch.states["finish_s"][0][: len(counted)] - env.workload.jobs["submit_s"]
    return float(jct_s[counted].sum()), steps


def tried_at(env: MovesEnv, own_s: float, futures: int, rng: np.random.Generator) -> Iterator[Tried]:
    """Yield the best move of a list in simulated futures, and another at random, each made in the true future."""
    gains = env.batch.advantages_s()[0]
    listed = env.batch.lists[0]
    others = [k for k in range(min(int(listed["num"]), len(gains))) if k != own_move(env)]
    if not others:
        return
    best = max(others, key=lambda k: gains[k])
    another = [int(rng.choice(rest))] if (rest := [k for k in others if k != best]) else []
    noises = {k: noise_of(listed, k) for k in (best, *another)}
    kinds = {k: env.batch.moves(0)[k].kind for k in noises}
    for k, noise in noises.items():
        deviating = copy.deepcopy(env)
        deviating.step(k)
        true_gain = own_s - to_the_end(deviating)[0]
        yield Tried(kinds[k], k == best, float(gains[k]), noise, futures, true_gain)


def noise_of(listed: Any, k: int) -> float:
    """Return the standard deviation of a move's advantage between simulated futures."""
    count, total = int(listed["num_futures"][k]), float(listed["advantage_sum"][k])
    squares = float(listed["advantage_squares"][k]) - total**2 / max(count, 1)
    return math.sqrt(max(squares, 0.0) / max(count - 1, 1))


def row_of(workload: str, found: Sequence[Tried]) -> Row:
    """Return the row of a workload; figures of winners are NaN without any."""
    winners = [each for each in found if each.wins]
    kinds = ", ".join(
        f"{kind} {count}" for kind, count in Counter(each.kind for each in winners).most_common(3)
    )
    gain, true_gain = (mean([getattr(each, name) for each in winners]) for name in ("gain", "true_gain"))
    noise = math.sqrt(mean([each.noise**2 for each in winners]))
    true_noise = float(np.std([each.true_gain for each in winners], ddof=1)) if len(winners) > 1 else math.nan
    pairs = np.array([(each.gain, each.true_gain) for each in found]).T
    varies = len(found) > 2 and bool((pairs.std(axis=1) > 0).all())
    correlation = float(np.corrcoef(pairs)[0, 1]) if varies else math.nan
    samples, true_samples = ((2 * each / gain) ** 2 for each in (noise, true_noise))
    decisions = sum(each.best for each in found)
    return Row(
        workload,
        decisions,
        len(winners),
        kinds,
        gain,
        true_gain,
        noise,
        true_noise,
        samples,
        true_samples,
        correlation,
    )


def mean(values: Sequence[float]) -> float:
    """Return the mean; NaN without values."""
    return float(np.mean(values)) if len(values) else math.nan


def table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of the table."""
    heading = ["workload", "decisions", "winners", "kinds", "gain", "true gain", "noise", "true noise"]
    heading += ["samples", "true samples", "correlation"]
    lines = [f"| {' | '.join(heading)} |", f"|{'---|' * len(heading)}"]
    for row in rows:
        seconds = (f"{value:,.0f}" for value in row[4:10])
        words = (row.workload, str(row.decisions), str(row.winners), row.kinds)
        lines.append(f"| {' | '.join((*words, *seconds, f'{row.correlation:.2f}'))} |")
    return lines


def kept(root: Path) -> list[Row]:
    """Return the rows of docs/room_moves.csv; none without the file."""
    file = root / "docs" / f"{FILE}.csv"
    if not file.is_file():
        return []
    found = pd.read_csv(file, keep_default_na=False, na_values={name: [""] for name in Row._fields[4:]})
    return [Row(*each) for each in found[list(Row._fields)].itertuples(index=False)]


def main(args: Sequence[str] | None = None) -> None:
    """Simulate, print the table, and write it if asked."""
    known = workload_names()
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--workload", nargs="+", choices=known, default=known, help="default: all")
    parser.add_argument("--windows", type=int, default=8, help="training windows per workload")
    parser.add_argument("--decisions", type=int, default=8, help="decisions per window")
    parser.add_argument("--futures", type=int, default=16, help="simulated futures of each move")
    parser.add_argument("--seed", type=int, default=0, help="seed of the windows")
    parser.add_argument("--processes", type=int, default=1, help="number of processes")
    parser.add_argument("--write", action="store_true", help="update docs/room_moves.csv")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder with docs/")
    chosen = parser.parse_args(args)
    rows = kept(chosen.root) if chosen.write else []
    budget, scenario = (chosen.windows, chosen.decisions, chosen.futures), {"seed": chosen.seed}
    for name in chosen.workload:
        tasks = [partial(tried_in, name, scenario, window, *budget) for window in range(chosen.windows)]
        row = row_of(name, [tried for part in in_order(each(tasks, chosen.processes)) for tried in part])
        rows = [each for each in rows if each.workload != name] + [row]
        rows.sort(key=lambda each: known.index(each.workload))
        print("\n".join(table([row])), flush=True)
        if chosen.write:
            pd.DataFrame(rows).to_csv(chosen.root / "docs" / f"{FILE}.csv", index=False)


if __name__ == "__main__":
    main()
