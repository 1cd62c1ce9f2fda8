"""What a future costs: job-seconds, those to come discounted."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import events

HORIZON = 4.0  # rollouts are cut after so many time constants


@compiled
def discounted(present, begin, end, tau):
    """Integral of exp(-u / tau) over [begin, end], times the jobs present."""
    if tau == np.inf:
        return present * (end - begin)
    return present * tau * (np.exp(-begin / tau) - np.exp(-end / tau))


@compiled
def step_cost(s, jobs, origin, tau):
    """Move to the next instant; return the discounted job-seconds spent on the way, or -1 if there is none."""
    begin = s.clock - origin
    present = s.num_arrived - s.num_done
    if not events.advance(s, jobs):
        return -1.0
    return discounted(present, begin, min(s.clock - origin, HORIZON * tau), tau)
