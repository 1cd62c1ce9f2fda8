"""Preempt only when it pays, as a threshold with one margin: Xion's claim, carried out whole in the kernel.

Claim: remaining time alone is a poor guide where pausing and loading take minutes; preempt only when that
is beneficial (Xion, IEEE CLOUD 2023, pp. 175-177, abstract). It states no rule. Inferred: a queued job that does
not fit displaces victims if

    mean of their remaining time > sum over them of (its own remaining time + margin x their overhead)

with overhead = pause + load; the load of a job that was paused counts in its own time. Margin 1, the
default, is the literal break-even, "the gap in remaining time exceeds the overhead". `threshold("srsf", 8)`
(`simulator.policy.BASE_POLICY`, as which agents begin) is our choice, not the paper's, tuned on training windows with
noisy estimates, where a gain of one overhead is often an error. `baselines.xion` weighs what all jobs concerned
gain and lose instead.
"""

from typing import Literal

from gpu_cluster_gym.simulator.policy import Ranking

EXPONENT = {"srtf": 0.0, "sqrt": 0.5, "srsf": 1.0}  # of the number of GPUs


def threshold(order: Literal["srtf", "sqrt", "srsf"] = "srtf", margin: float = 1.0) -> Ranking:
    """Return the policy with a margin in overheads; 0 ignores overheads, infinity never pauses a job.

    order: by remaining time (`srtf`), times the root of the job's GPUs (`sqrt`), or times its GPUs (`srsf`).
    """
    return Ranking("weighted", "cost_aware", exponent=EXPONENT[order], margin=margin)


policy = threshold()
GRID = {"exponent": tuple(EXPONENT.values()), "margin": (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)}
