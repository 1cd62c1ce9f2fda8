"""Search the weights of the rule over moves for a workload: `python benchmarks/evolve.py --workload NAME`.

What is found on training windows and chosen on validation windows is compared with the default rule on further
validation windows, and kept in `baselines/constants/NAME.json`, from where `evaluate.py --policy constants` takes it.
Several names search one rule for all of these workloads, with as many windows of each, and keep it in `together.json`.
With `--history` finished jobs teach, and what is found is kept in `NAME-taught.json`. `--begin FILE` goes on from the
weights of such a file. With `--hidden N` a network that sets the weights by the load is searched, from the constants
kept, and compared with them. Test windows are not looked at.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents import constants
from gpu_cluster_gym.agents.constants import Course, Floats, Found, Searching
from gpu_cluster_gym.baselines import CONSTANTS
from gpu_cluster_gym.envs.windows import PreparedWindow, prepare
from gpu_cluster_gym.evaluation import run_folder
from gpu_cluster_gym.evaluation.comparison import estimate
from gpu_cluster_gym.evaluation.provenance import commit
from gpu_cluster_gym.simulator.kernel.rule.load import LOAD
from gpu_cluster_gym.simulator.rule import RULE_PARAMETERS
from gpu_cluster_gym.traces import VERSION, stream
from gpu_cluster_gym.workloads import Split, named, names

TRAINING, CHOOSING, FRESH = 128, 32, 64  # windows; of those of validation the first choose
FIELDS = ("hidden", "population", "windows", "validate_every", "seed", "sigma")


def searched(chosen: argparse.Namespace, searching: Searching) -> tuple[Found, list[PreparedWindow]]:
    """Search as chosen; return what was found, and the fresh windows."""

    def of(name: str, split: Split, count: int) -> tuple[PreparedWindow, ...]:
        scenario = {"physics": chosen.physics} if chosen.physics else {}
        return prepare(scenario | ({"history": name} if chosen.history else {}), name, split, count)

    training = [each for name in chosen.workload for each in of(name, "train", chosen.training)]
    both = [of(name, "validation", chosen.choosing + chosen.fresh) for name in chosen.workload]
    start = offsets_of(chosen.begin) if chosen.begin else None
    if searching.hidden:
        start = constants.first(searching, stream(searching.seed, "first network"), kept(chosen))
    choosing = [each for found in both for each in found[: chosen.choosing]]
    fresh = [each for found in both for each in found[chosen.choosing :]]
    found = constants.search(
        training, choosing, searching, start=start, tell=lambda line: print(line, flush=True)
    )
    return found, fresh


def kept(chosen: argparse.Namespace) -> Floats:
    """Return the constants kept for the workload, as `offsets` does."""
    return offsets(baselines.constants(*chosen.workload, taught=chosen.history).settings)


def offsets_of(file: Path) -> Floats:
    """Return the constants of a file, as `offsets` does."""
    return offsets(json.loads(file.read_text(encoding="utf-8"))["weights"])


def offsets(weights: Mapping[str, float]) -> Floats:
    """Return how far weights are from the defaults, in units of their scales; 0 for those that are not named."""
    known = [each for each in RULE_PARAMETERS if each.name in constants.SEARCHED]
    return np.array([(weights.get(each.name, each.default) - each.default) / each.scale for each in known])


def command(chosen: argparse.Namespace, found: Found) -> str:
    """Return the command that repeats a search to the digit, whatever time it takes."""
    usual = Searching()
    flags = {name: getattr(chosen, name) for name in FIELDS if getattr(chosen, name) != getattr(usual, name)}
    sizes = {"training": TRAINING, "choosing": CHOOSING, "fresh": FRESH}
    flags |= {name: getattr(chosen, name) for name, size in sizes.items() if getattr(chosen, name) != size}
    flags |= {"physics": chosen.physics} if chosen.physics else {}
    flags |= {"begin": chosen.begin} if chosen.begin else {}
    flags |= {"generations": found.generations}
    words = [f"--{name.replace('_', '-')} {value}" for name, value in flags.items()]
    words += ["--history"] if chosen.history else []
    return f"python benchmarks/evolve.py --workload {' '.join(chosen.workload)} {' '.join(words)}"


def keep(chosen: argparse.Namespace, searching: Searching, found: Found, ratios: Floats) -> None:
    """Write the constants found, with where they are from; ratios: to the default rule, on the fresh windows."""
    rule, value = constants.rule_of(found.vector, searching), estimate(ratios)
    one, several = chosen.workload[0], len(chosen.workload) > 1
    of = {"workloads": chosen.workload} if several else {"workload": one}
    document = {
        "command": command(chosen, found),
        **of,
        "physics": chosen.physics or (None if several else named(one).physics),
        "history": chosen.history,
        "seed": searching.seed,
        "streams": VERSION,
        "commit": chosen.commit,
        "minutes": round(found.minutes, 1),
        "episodes": searching.population * searching.windows * found.generations,
        "generation": found.generation,
        "score": "mean over windows of mean JCT / that of union",
        "windows": {"training": chosen.training, "choosing": chosen.choosing, "fresh": chosen.fresh},
        "choosing": found.validation,
        "fresh": value._asdict(),
        "weights": {name: getattr(rule, name) for name in searching.weights},
    }
    folder = Path(chosen.out)
    folder.mkdir(parents=True, exist_ok=True)
    name = baselines.TOGETHER if several else one
    run_folder.write_json(folder / f"{name}{baselines.TAUGHT * chosen.history}.json", document)


def compare(what: str, ratios: Floats) -> None:
    """Print a mean of ratios with its interval."""
    value, wins = estimate(ratios), int((ratios < 1).sum())
    print(f"{what}: {value.mean:.4f} [{value.low:.4f}, {value.high:.4f}], lower in {wins} of {len(ratios)}")


def hold_against_constants(
    kept: Floats, searching: Searching, found: Found, fresh: list[PreparedWindow]
) -> None:
    """Print how a network does against the constants kept, and against the mean of its own answers, held."""
    answers: list[Floats] = []
    network, still, every = constants.acting(found.vector, searching), Searching(), range(len(fresh))

    def noted(load: np.ndarray) -> Floats:
        answers.append(network(load))
        return answers[-1]

    course = Course(fresh, len(fresh), still)
    ratios = Course(fresh, len(fresh), searching).ratios(noted, every)
    compare("network / union", ratios)
    for what, held in (
        ("the constants kept", kept),
        ("its mean answer, held", np.mean(answers, (0, 1))),
    ):
        others = course.ratios(constants.acting(held, still), every)
        compare(f"{what} / union", others)
        compare(f"network / {what}", ratios / others)
    apart = np.std(answers, axis=(0, 1))
    print(
        "deviation of its answers, in scales:", dict(zip(still.weights, apart.round(2).tolist(), strict=True))
    )


def flags() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    usual = Searching()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", choices=names(), nargs="+", required=True)
    parser.add_argument("--physics", help="other parts of physics than the workload's")
    parser.add_argument("--history", action="store_true", help="with what its finished jobs teach")
    parser.add_argument("--begin", type=Path, help="file of weights at which to begin, in place of union's")
    for name in (*FIELDS, "generations"):
        kind = type(getattr(usual, name))
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=getattr(usual, name))
    parser.add_argument("--loads", nargs="+", choices=LOAD, default=LOAD, help="what a network sees")
    parser.add_argument("--minutes", type=float, help="after which no generation begins")
    parser.add_argument("--training", type=int, default=TRAINING, help="training windows")
    parser.add_argument("--choosing", type=int, default=CHOOSING, help="validation windows that choose")
    parser.add_argument("--fresh", type=int, default=FRESH, help="validation windows that only compare")
    parser.add_argument("--out", default=str(CONSTANTS), help="folder to write to")
    return parser


def main(args: Sequence[str] | None = None) -> None:
    """Search, print what was found, and keep constants."""
    parser = flags()
    chosen = parser.parse_args(args)
    if chosen.hidden and len(chosen.workload) > 1:
        parser.error("--hidden: a network is searched for one workload")
    if len(chosen.workload) > 1 and chosen.history:
        parser.error("--history: of constants for one workload")
    if chosen.hidden and chosen.begin:
        parser.error("--begin: a network begins at the constants kept")
    chosen.commit = commit()
    searching = Searching(
        **{name: getattr(chosen, name) for name in (*FIELDS, "generations", "minutes")},
        loads=tuple(chosen.loads),
    )
    found, fresh = searched(chosen, searching)
    episodes = searching.population * searching.windows * found.generations
    print(f"{episodes:,} episodes in {found.minutes:.1f} min, {episodes / found.minutes / 60:.1f} a second")
    if searching.hidden:
        np.save(
            Path(chosen.out) / f"{chosen.workload[0]}{baselines.TAUGHT * chosen.history}-network.npy",
            found.vector,
        )
        return hold_against_constants(kept(chosen), searching, found, fresh)
    act = constants.acting(found.vector, searching)
    ratios = Course(fresh, len(fresh), searching).ratios(act, range(len(fresh)))
    compare("/ union, on fresh validation windows", ratios)
    keep(chosen, searching, found, ratios)
    rule = constants.rule_of(found.vector, searching)
    return print({name: round(getattr(rule, name), 3) for name in searching.weights})


if __name__ == "__main__":
    main()
