"""Do what `union` does, but where another move wins in imagined futures: planning at each decision, without training.

Claims nothing of its own; what it is worth where, `docs/lookahead.md` says. At an instant at which `union` decides, the
moves worth considering are listed: starts of the first queued jobs with each number of workers and on other seats, also
in the place of running jobs; other GPUs for running jobs, or a pause; to wait. Each is tried in the same futures, in
which run times are drawn from what is believed and no job arrives, and after which `union` goes on
(`simulator.kernel.moves.look_ahead` has the formula). What wins most, beyond doubt and a margin, is made.

Inferred by us, from no paper: it is one step of policy improvement by rollouts of a base policy (Bertsekas, Tsitsiklis
and Wu, J. Heuristics 3, 1997), with common random numbers, and the choice of the best of several by stages as in
sequential halving (Karnin, Koren and Somekh, ICML 2013), both from memory. Its model of a future is the simulator's
physics, fed with what a scheduler knows: no true run time, need of cores, memory or scaling of a job that has not
ended, and no arrival.
"""

from gpu_cluster_gym.simulator.look_ahead import LookAhead

policy = LookAhead()
MINUTES_A_WINDOW = True
"""So `--policy all` leaves it out."""
