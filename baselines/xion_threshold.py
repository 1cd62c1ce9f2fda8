"""Xion as a threshold with one margin: preempt if remaining times exceed the overhead, run entirely in compiled code.

Claim: remaining time alone is a poor criterion when pausing and loading take minutes; preempt only when that is
beneficial (Xion, IEEE CLOUD 2023, pp. 175-177, abstract). The abstract states no rule. Inferred: a queued job that does
not fit displaces victims if

    mean of the victims' remaining times > sum over victims of (own remaining time + margin x overhead)

with overhead = pause + load; the load of a previously preempted job counts in its own remaining time. Margin 1, the
default, is the literal break-even, "the gap in remaining time exceeds the overhead". `threshold("srsf", 8)`, the
base policy of environments with `hints=True` (`simulator.policy.BASE_POLICY`), is our choice: it was tuned on training
windows with noisy estimates, where a gain of one overhead is often an error. `baselines.xion` weighs the gains and
losses of all jobs concerned instead.
"""

from typing import Literal

from gpu_cluster_gym.simulator.policy import Ranking

EXPONENT = {
    "srtf": 0.0,
    "sqrt": 0.5,
    "srsf": 1.0,
}  # of the number of GPUs, a factor of the order


def threshold(order: Literal["srtf", "sqrt", "srsf"] = "srtf", margin: float = 1.0) -> Ranking:
    """Return the policy with an order and a margin.

    order: by remaining time (`srtf`), times the square root of the job's GPUs (`sqrt`), or times its GPUs (`srsf`).
    margin: multiple of the overhead; 0 ignores overheads, infinity never preempts.
    """
    return Ranking("weighted", "cost_aware", exponent=EXPONENT[order], margin=margin)


policy = threshold()
GRID = {"exponent": tuple(EXPONENT.values()), "margin": (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)}
