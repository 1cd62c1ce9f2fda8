"""Agents of `train_agent.py --action plain`, one by one, against each heuristic, on test windows.

`python -m benchmarks.from_random_weights RUN [--windows 100] [--seed 0] [--own-cluster] [--greedy]` reads the
agents of a training run (RUN, with a folder for each of its seeds if there are several), and prints for each policy the
agents' mean JCT and mean bounded slowdown relative to it, with paired 95 % intervals, and whether an agent is better or
worse by its interval.

- `untrained`: the same network with random weights.
- `state-blind`: the agents themselves, which judge each job by the summary of all jobs and of the cluster at another,
  random decision of the same window. The difference from the agents is the value of the state.

--seed: seed of the generated trace; another one than that of training gives windows that nobody has seen.
--greedy: the agents' most likely actions instead of sampled ones.
--own-cluster: test on the workload's own cluster and days, which the agents never saw in training.
"""

import argparse
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents import checkpoint
from gpu_cluster_gym.agents.plain import untrained
from gpu_cluster_gym.agents.set_network import SamplingAgent, SetNetwork
from gpu_cluster_gym.agents.training import OWN_CLUSTER, PlainTraining
from gpu_cluster_gym.envs.agent_policy import AgentPolicy
from gpu_cluster_gym.envs.floors import FLOORS
from gpu_cluster_gym.envs.windows import shared_windows
from gpu_cluster_gym.evaluation import runner
from gpu_cluster_gym.evaluation.comparison import Comparison, compare
from gpu_cluster_gym.evaluation.run_folder import BEST
from gpu_cluster_gym.simulator.policy import Policy

HEURISTICS = ("fifo", "easy", "sjf", "las", "srtf", "tiresias", "xion", "xion_threshold", "union")
UNTRAINED, BLIND = "untrained", "state-blind"
METRICS = {"mean_jct_s": "mean JCT", "mean_slowdown": "slowdown"}
KEPT = 512
"""Summaries of earlier decisions among which a state-blind agent draws."""


class OfAnotherDecision(nn.Module):
    """A layer whose output is that for an earlier input, drawn at random."""

    def __init__(self, layer: nn.Module) -> None:
        """Wrap a layer."""
        super().__init__()
        self.layer, self.kept, self.rng = layer, [], np.random.default_rng(0)  # type: ignore[var-annotated]

    def forward(self, pooled: Tensor) -> Tensor:
        """Return the output for an input of the last `KEPT` ones."""
        self.kept = [*self.kept[-KEPT + 1 :], pooled]
        drawn: Tensor = self.layer(self.kept[int(self.rng.integers(len(self.kept)))])
        return drawn


def main(args: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--windows", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--own-cluster", action="store_true")
    parser.add_argument("--greedy", action="store_true")
    parser.add_argument("--processes", type=int, default=1)
    asked = parser.parse_args(args)
    agents = [checkpoint.load(each) for each in folders(asked.run)]
    training = agents[0].training
    assert isinstance(training, PlainTraining)
    scenario = replace(agents[0].scenario, seed=asked.seed)
    if asked.own_cluster:
        scenario = replace(training, practice_cluster=OWN_CLUSTER).practice(scenario)
    workloads = shared_windows(scenario, "test", asked.windows)
    acting = most_likely if asked.greedy else checkpoint.policy_of
    policies: dict[str, Any] = {str(k): acting(each) for k, each in enumerate(agents)}
    policies |= {f"{BLIND} {k}": blind(each) for k, each in enumerate(agents)}
    policies |= {UNTRAINED: untrained(training), **FLOORS} | {
        name: baselines.load(name) for name in HEURISTICS
    }
    makers = {name: partial(baselines.make, policy) for name, policy in policies.items()}
    summaries = runner.score(runner.simulate(makers, workloads, processes=asked.processes), workloads)
    print(table_of(summaries, len(agents)).to_string(float_format="{:.3f}".format))


def folders(run: Path) -> list[Path]:
    """Return the folders of the best agents of a run; ValueError for none."""
    found = [each / BEST for each in (run, *sorted(run.glob("seed-*"))) if (each / BEST).is_dir()]
    if not found:
        raise ValueError(
            f"{run}: expected the folder of a run of train_agent.py, with {BEST} or seed-*/{BEST}"
        )
    return found


def most_likely(agent: checkpoint.Agent) -> Policy:
    """Return the agent with its most likely actions."""
    training = agent.training
    assert isinstance(training, PlainTraining)
    assert isinstance(agent.network, SetNetwork)
    acting = training.in_use().acting()
    network = agent.network.observing(acting["queue_slots"])

    def predict(seen: Any, mask: Any) -> int:
        return int(network.choose(torch.from_numpy(seen)[None], None)[0])

    return AgentPolicy(predict, **acting)


def blind(agent: checkpoint.Agent) -> Policy:
    """Return the agent that sees each job, but the summary of all jobs of another decision."""
    training, other = agent.training, deepcopy(agent.network)
    assert isinstance(training, PlainTraining)
    assert isinstance(other, SetNetwork)
    other.actor.context = OfAnotherDecision(other.actor.context)  # type: ignore[assignment]
    return SamplingAgent(other, training.in_use().acting())


def table_of(summaries: Mapping[str, pd.DataFrame], count: int) -> pd.DataFrame:
    """Return a row per policy and agent: the agent's numbers relative to the policy's, with intervals."""
    others = [name for name in summaries if not name.isdigit() and not name.startswith(BLIND)]
    rows = []
    for name in (*others, BLIND):
        for k in range(count):
            other = summaries[f"{BLIND} {k}" if name == BLIND else name]
            found = {column: compare(summaries[str(k)], other, metric=column) for column in METRICS}
            rows.append({"policy": name, "agent": k} | {METRICS[c]: words(each) for c, each in found.items()})
    return pd.DataFrame(rows).set_index(["policy", "agent"])


def words(found: Comparison) -> str:
    """Return a comparison in words."""
    verdict = "better" if found.high < 1 else "worse" if found.low > 1 else "-"
    return f"{found.ratio:.3f} ({found.low:.3f}-{found.high:.3f}) {verdict}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
