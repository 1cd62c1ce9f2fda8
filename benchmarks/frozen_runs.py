"""Compare shipped agents and environment steps with frozen results, to the last digit.

`python -m benchmarks.frozen_runs [--agents] [--steps] [--write]` runs each shipped agent on the first ten test windows
of its workload, and takes 200 random legal steps with each action kind, in a single environment and in a batch of two.
It compares mean JCTs and digests with `frozen_runs.csv`; the exit code is 1 if one differs. `--write` replaces the
file. `python -m benchmarks.per_window` does the same for policies.
"""

import argparse
import csv
import hashlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import gpu_cluster_gym  # noqa: F401 - registers the environments
from gpu_cluster_gym.agents import load_policy
from gpu_cluster_gym.agents.pretrained import SHIPPED, shipped
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.workloads import make_scenario, named, names, windows

FILE = Path(__file__).with_suffix(".csv")
WINDOWS, STEPS, BATCH = 10, 200, 2
ID = "GPUCluster-v2"
SMALL = {"cluster": "4x8", "jobs": 256, "physics": "exclusive", "drop_too_large": True}
"""Fields of `philly_backlog` for the steps and the general agent."""
HINTS: dict[str, Any] = {
    "hints": True,
    "reward": "jct",
    "queue_slots": 16,
    "running_slots": 16,
    "min_run_s": 60.0,
}
BY_AGENT = HINTS | {"placed_by": "agent", "victims_by": "agent", "observation": "tables"}
BY_RULE = HINTS | {"victims_by": "rule"}
KINDS: dict[str, dict[str, Any]] = {
    "plain by agent": BY_AGENT,
    "plain by agent under all physics": BY_AGENT | {"scenario": SMALL | {"physics": "all"}},
    "plain by rule": BY_RULE,
    "plain by rule, tables": BY_RULE | {"observation": "tables"},
    "plain by rule, paid by advantage": BY_RULE | {"reward": "rollout_advantage"},
    "steer": {"action": "steer"},
    "steer with a critic": {"action": "steer", "privileged": True},
    "moves": {"action": "moves"},
    "moves on mixed": {"action": "moves", "workload": "mixed"},
}
"""Keywords of the environment, by row."""
Row = tuple[str, str, str]


def scores() -> Iterator[Row]:
    """Yield the mean JCT, s, of each shipped agent on test windows; the general one plays small backlogs."""
    for name in shipped():
        scenario = named(name) if name in names() else make_scenario("philly_backlog", SMALL)
        for number, load in enumerate(windows(scenario, "test", WINDOWS)):
            table = load.results(run(load_policy(SHIPPED / name), load.episode()))
            digest = hashlib.sha256(table["finish_s"].to_numpy(float).tobytes()).hexdigest()[:16]
            yield f"agent {name}", str(number), f"{float(table['jct_s'].mean())!r} {digest}"


def digests() -> Iterator[Row]:
    """Yield the digest of observations, masks, rewards and episode ends in random steps of each action kind."""
    for name, choices in KINDS.items():
        small = {} if "workload" in choices else {"workload": "philly_backlog", "scenario": SMALL}
        choices = {"count": 4} | small | choices
        yield f"steps {name}", "single", single(choices)
        yield f"steps {name}", "batch", batch(choices)


def single(choices: dict[str, Any]) -> str:
    """Return the digest of steps in one environment, which plays its windows in turn."""
    env: Any = gymnasium.make(ID, **choices, disable_env_checker=True).unwrapped
    rng, digest, places = np.random.default_rng(0), hashlib.sha256(), iter(env.windows * STEPS)
    seen, _ = env.reset(seed=0, options={"window": next(places)})
    for _ in range(STEPS):
        masks = masks_of(env, 1)
        note(digest, seen, masks)
        seen, reward, done, cut, _ = env.step(drawn(env.action_space, masks, rng)[0])
        note(digest, float(reward), bool(done), bool(cut))
        if done or cut:
            seen, _ = env.reset(options={"window": next(places)})
    return digest.hexdigest()[:16]


def batch(choices: dict[str, Any]) -> str:
    """Return the digest of steps in a batch, with a separate window per environment."""
    env: Any = gymnasium.make_vec(ID, BATCH, **choices, autoreset="Disabled")
    rng, digest = np.random.default_rng(0), hashlib.sha256()
    numbers = list(env.env.windows[:BATCH])
    seen, _ = env.reset(seed=0, options={"window": numbers})
    over = np.zeros(BATCH, bool)
    for _ in range(STEPS):
        masks = masks_of(env, BATCH)
        note(digest, seen, masks)
        seen, reward, done, cut, _ = env.step(drawn(env.single_action_space, masks, rng))
        over = done | cut
        note(digest, np.asarray(reward, float), np.asarray(done, bool), np.asarray(cut, bool))
        if over.any():
            seen, _ = env.reset(options={"window": numbers, "reset_mask": over})
    return digest.hexdigest()[:16]


def masks_of(env: Any, count: int) -> np.ndarray:
    """Return the masks of legal actions, bool (count, actions); for a continuous space, one column of True."""
    discrete = hasattr(env, "action_masks") and not isinstance(env.action_space, gymnasium.spaces.Box)
    return env.action_masks().reshape(count, -1) if discrete else np.ones((count, 1), bool)


def drawn(space: gymnasium.Space[Any], masks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a random legal action for each row of masks."""
    if isinstance(space, gymnasium.spaces.Box):
        return rng.uniform(-1, 1, (len(masks), *space.shape)).astype(np.float32)
    return np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])


def note(digest: Any, *values: Any) -> None:
    """Add values, and arrays by name, to a digest."""
    for value in values:
        parts = [value[name] for name in sorted(value)] if isinstance(value, dict) else [value]
        for part in parts:
            digest.update(np.ascontiguousarray(part).tobytes())


def main(args: Sequence[str] | None = None) -> int:
    """Run agents and steps, and write the file or compare with it; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agents", action="store_true", help="shipped agents only")
    parser.add_argument("--steps", action="store_true", help="environment steps only")
    parser.add_argument("--write", action="store_true", help="replace the file")
    chosen = parser.parse_args(args)
    both = chosen.agents == chosen.steps
    found = [*(scores() if both or chosen.agents else ()), *(digests() if both or chosen.steps else ())]
    if chosen.write:
        with FILE.open("w", newline="") as lines:
            csv.writer(lines, lineterminator="\n").writerows([("run", "part", "result"), *found])
        return 0
    with FILE.open(newline="") as lines:
        frozen = {(row["run"], row["part"]): row["result"] for row in csv.DictReader(lines)}
    changed = [
        (*key, frozen.get(key), now) for *key, now in found for key in [tuple(key)] if frozen.get(key) != now
    ]
    for run_, part, before, now in changed:
        print(f"{run_}, {part}: {before} -> {now}")
    print(f"{len(found) - len(changed)} of {len(found)} results are equal to the digit")
    return 1 if changed or not found else 0


if __name__ == "__main__":
    sys.exit(main())
