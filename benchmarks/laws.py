"""Check the ledger's laws after every event: `python benchmarks/laws.py [--events 1000000] [--trace-file FILE]`.

Every ranking of `baselines/` runs over windows until so many events have been checked. After each instant no GPU may
be held twice, free counts must equal what is held, gangs be whole, each job in one phase, no job have more progress
than work, and the clock not have run back; at the end the integral of jobs present must be the sum of completion times.
"""

import argparse
from itertools import cycle

import numpy as np

from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.episode import Episode
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster import laws
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.simulator.source import adopt
from gpu_cluster_gym.workloads import Scenario, windows


def violations(episode: Episode, ranking: Ranking) -> int:
    """Return how many laws are broken in an episode, instant by instant."""
    episode.set_levels(ranking.levels)
    adopt(episode.states, 0, episode.jobs, ranking)
    state, broken, before = episode.state, 0, -np.inf
    while not episode.done:
        episode.advance()
        calls.walk(episode.states, 0, episode.jobs)
        broken += laws.check(episode.states, 0, episode.jobs) + (state.clock < before)
        before = float(state.clock)
    count = len(episode.jobs)
    total = float((state.finish_s[:count] - episode.jobs["submit_s"]).sum())
    return int(broken + (abs(state.present_seconds - total) > 1e-9 * total))


def main() -> None:
    """Print, for each ranking, the events checked and the laws broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--trace-file")
    chosen = parser.parse_args()
    workloads = windows(Scenario(trace_file=chosen.trace_file), "test", 20)
    for name in baselines.names():
        ranking = baselines.load(name)
        if not isinstance(ranking, Ranking):
            continue
        events = broken = 0
        for workload in cycle(workloads):
            episode = workload.episode()
            broken += violations(episode, ranking)
            events += int(episode.state.instant)
            if events >= chosen.events:
                break
        print(f"{name:16s} {events:>10,} instants checked, {broken} laws broken", flush=True)


if __name__ == "__main__":
    main()
