"""The first job of an order that fits where the placement rule puts it."""

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY
from gpu_cluster_gym.simulator.kernel.cluster.placement import place
from gpu_cluster_gym.simulator.kernel.cluster.speed import cores_of_servers


@compiled
def place_first(s, jobs, order, cores):
    """Return the first of these queued jobs that fits, which is then placed; see `first_that_fits`."""
    s.exhausted[: s.num_classes] = 0
    for job in order:
        request_class = jobs[job].request_class
        if s.exhausted[request_class] or jobs[job].num_gpus > s.num_free:
            continue
        if s.last_action_instant[job] == s.instant:
            continue
        asked = jobs[job].cores_each
        if cores > 0 and jobs[job].num_gpus > 0:
            jobs[job].cores_each = cores + cores_of_servers(
                jobs[job].servers, jobs[job].num_gpus, jobs[job].num_gpus
            )
        fits = place(s, jobs, job)
        jobs[job].cores_each = asked
        if fits:
            return job
        s.exhausted[request_class] = cores == 0
    return NOBODY


@entry
def first_that_fits(states, e, jobs, order, cores):
    """Return the first of these queued jobs that fits, which is then placed as by `calls.place`, or NOBODY.

    cores: to feed each GPU of a job that has some, its servers' on top; 0 for those it asks for. Where one of a request
    class finds no place as it asks for it, none of that class does.
    """
    return place_first(states[e], jobs, order, cores)
