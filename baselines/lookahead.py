"""`union`, unless another move is better in sampled futures: planning at each decision, without training.

It makes no claim of its own; `docs/learning.md` reports its results. When `union` decides, candidate moves are listed:
start one of the first queued jobs, with each number of workers and on alternative GPUs, also those of running jobs;
move a running job to other GPUs, or pause it; wait. Each is tried in the same futures, in which run times are sampled
from the belief, no job arrives and `union` continues after the move (`simulator.kernel.moves.rollouts` has the
formula). The best move is made if its mean advantage exceeds a margin and two standard errors.

Inferred by us, from no paper: it is one step of policy improvement by rollouts of a base policy (Bertsekas, Tsitsiklis
and Wu, J. Heuristics 3, 1997), with common random numbers, and the choice of the best of several by stages as in
sequential halving (Karnin, Koren and Somekh, ICML 2013), both from memory. Its model of a future is the simulator's
physics, fed with what a scheduler knows: no true run time, core need, memory or scaling of an unfinished job, and no
arrival.
"""

from gpu_cluster_gym.simulator.look_ahead_policy import LookAhead

policy = LookAhead()
SLOW = True
"""The policy takes minutes per window; `--policy all` omits it."""
