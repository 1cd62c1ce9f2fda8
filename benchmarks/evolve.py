"""Search the weights of the rule over moves for a workload: `python benchmarks/evolve.py --workload NAME`.

What is found on training windows and chosen on validation windows is compared with the default rule on further
validation windows, and kept in `baselines/constants/NAME.json`, from where `evaluate.py --policy constants` takes it.
With `--hidden N` a network that sets the weights by the load is searched, from the constants kept, and held against
them. Test windows are not looked at.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

import baselines
from agents import constants
from agents.constants import Course, Found, Searching
from agents.evolution import Floats
from baselines import CONSTANTS
from envs.openings import Opening, opened
from evaluation import run_folder
from evaluation.comparison import estimate
from simulator.rule import RULE_PARAMETERS
from traces import VERSION, stream
from workloads import named, names

TRAINING, CHOOSING, FRESH = (
    128,
    32,
    64,
)  # windows; of validation the first choose, and those after them are fresh


def searched(chosen: argparse.Namespace, searching: Searching) -> tuple[Found, list[Opening], float]:
    """Search as chosen; return what was found, the fresh windows, and the minutes of the search."""
    scenario = {"physics": chosen.physics} if chosen.physics else {}
    training = opened(scenario, chosen.workload, "train", chosen.training)
    validation = opened(scenario, chosen.workload, "validation", chosen.choosing + chosen.fresh)
    start = None
    if searching.hidden:
        rng = stream(searching.seed, "first network")
        start = constants.first(searching, rng, offsets(baselines.constants(chosen.workload).settings))
    began = time.perf_counter()
    choosing, fresh = validation[: chosen.choosing], list(validation[chosen.choosing :])
    found = constants.search(
        training, choosing, searching, start=start, tell=lambda line: print(line, flush=True)
    )
    return found, fresh, (time.perf_counter() - began) / 60


def offsets(weights: dict[str, float]) -> Floats:
    """Return how far weights are from the defaults, in units of their scales."""
    known = {each.name: each for each in RULE_PARAMETERS}
    apart = [
        (weights[name] - known[name].default) / known[name].scale if name in weights else 0.0
        for name in constants.SEARCHED
    ]
    return np.array(apart)


def commit() -> str:
    """Return the commit that is checked out, with a + where files differ from it."""
    told = ("git", "describe", "--always", "--dirty=+", "--abbrev=7", "--exclude=*")
    return subprocess.run(told, capture_output=True, text=True, check=True).stdout.strip()


def keep(
    chosen: argparse.Namespace, searching: Searching, found: Found, minutes: float, fresh: Floats
) -> None:
    """Write the constants found, with where they are from."""
    rule, value = constants.rule_of(found.vector, searching), estimate(fresh)
    document = {
        "command": f"python benchmarks/evolve.py {' '.join(chosen.args)}",
        "workload": chosen.workload,
        "physics": chosen.physics or named(chosen.workload).physics,
        "streams": VERSION,
        "commit": chosen.commit,
        "minutes": round(minutes, 1),
        "episodes": searching.population * searching.windows * found.generations,
        "generations": found.generations,
        "generation": found.generation,
        "score": "mean over windows of mean JCT / that of union",
        "windows": {"training": chosen.training, "choosing": chosen.choosing, "fresh": chosen.fresh},
        "choosing": found.validation,
        "fresh": {"mean": value.mean, "low": value.low, "high": value.high},
        "weights": {name: getattr(rule, name) for name in searching.weights},
        "searching": {
            name: each for name, each in asdict(searching).items() if name not in ("weights", "minutes")
        },
    }
    folder = Path(chosen.out)
    folder.mkdir(parents=True, exist_ok=True)
    run_folder.write_json(folder / f"{chosen.workload}.json", document)


def compare(name: str, ratios: Floats) -> None:
    """Print a mean of ratios with its interval."""
    value = estimate(ratios)
    wins = int((ratios < 1).sum())
    print(f"{name}: {value.mean:.4f} [{value.low:.4f}, {value.high:.4f}], lower in {wins} of {len(ratios)}")


def main(args: Sequence[str] | None = None) -> None:
    """Search, print what was found, and keep constants."""
    usual = Searching()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", choices=names(), required=True)
    parser.add_argument("--physics", help="other parts of physics than the workload's")
    for name in ("hidden", "population", "generations", "windows", "validate_every", "seed"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(usual, name))
    for name in ("sigma", "minutes"):
        parser.add_argument(f"--{name}", type=float, default=getattr(usual, name))
    parser.add_argument("--training", type=int, default=TRAINING, help="training windows")
    parser.add_argument("--choosing", type=int, default=CHOOSING, help="validation windows that choose")
    parser.add_argument("--fresh", type=int, default=FRESH, help="validation windows that only compare")
    parser.add_argument("--out", default=str(CONSTANTS), help="folder to write to")
    chosen = parser.parse_args(args)
    chosen.args, chosen.commit = sys.argv[1:] if args is None else args, commit()
    fields = ("hidden", "population", "generations", "windows", "validate_every", "seed", "sigma", "minutes")
    searching = Searching(**{name: getattr(chosen, name) for name in fields})
    found, fresh, minutes = searched(chosen, searching)
    episodes = searching.population * searching.windows * found.generations
    print(f"{episodes:,} episodes in {minutes:.1f} min, {episodes / minutes / 60:.1f} a second")
    every = range(len(fresh))
    ratios = Course(fresh, len(fresh), searching).ratios(found.vector, every)
    compare("/ union, fresh validation windows", ratios)
    if not searching.hidden:
        keep(chosen, searching, found, minutes, ratios)
        rule = constants.rule_of(found.vector, searching)
        print({name: round(getattr(rule, name), 3) for name in searching.weights})
        return
    still = Searching()
    held = offsets(baselines.constants(chosen.workload).settings)
    compare("/ the constants kept", ratios / Course(fresh, len(fresh), still).ratios(held, every))
    np.save(Path(chosen.out) / f"{chosen.workload}-network.npy", found.vector)


if __name__ == "__main__":
    main()
