"""Compiled searches for policies: GPUs that may be shared, pauses that free GPUs, and grants by an order.

Each takes a `View`, reads only data that it shows, and returns plain values; nothing is changed. ValueError for a job
that has not arrived.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.kernel.cluster.layout import DONE, NOBODY
from gpu_cluster_gym.simulator.kernel.rankings import room
from gpu_cluster_gym.simulator.kernel.rounds import groups
from gpu_cluster_gym.simulator.policy import Placement, Start
from gpu_cluster_gym.simulator.source import source_of
from gpu_cluster_gym.simulator.view import View


class Room(NamedTuple):
    """Jobs to pause, the GPUs that a job then gets, and the memory of the smallest of these, GiB (inf if not known)."""

    victims: list[int]
    gpus: tuple[int, ...]
    memory_gib: float = float("inf")


class Displacement(NamedTuple):
    """Pauses by which a job would get GPUs.

    job: the job, which waits for GPUs.
    effort_s: seconds for which it will hold them (`by_effort`).
    wait_s: its `wait_for_room`; NaN if no pause and no load of the jobs to pause takes time.
    room: the jobs to pause, and the GPUs.
    """

    job: int
    effort_s: float
    wait_s: float
    room: Room


class Owners(NamedTuple):
    """Owners of jobs: tenants, or users where there are none.

    of: (jobs,) owner of each job that has arrived.
    gpus: (owners,) GPUs that the jobs of each hold.
    share: (owners,) quota of each tenant; 1 for each user.
    """

    of: np.ndarray
    gpus: np.ndarray
    share: np.ndarray


def owners(view: View) -> Owners:
    """Return the owners of the jobs that have arrived."""
    if len(quota := view.tenants.quota):
        return Owners(view.jobs.tenant, view.tenants.num_gpus.astype(float), quota.astype(float))
    users = int(view.jobs.user.max(initial=0)) + 1
    holders = np.concatenate([view.running, view.loading, view.pausing])
    gpus = np.bincount(view.jobs.user[holders], view.jobs.gpus_now[holders], users)
    return Owners(view.jobs.user, gpus, np.ones(users))


class Joins:
    """Pairs of a queued job and a group of running jobs that may share GPUs at this instant.

    A group is the GPUs that have the same jobs on them; those of the earliest jobs come first. Reserved GPUs, and GPUs
    with a job that ran out of memory three times, belong to no group; such a job joins none.

    order: (jobs,) queued jobs.
    members: (groups, `max_share`) jobs of each group, -1 for none.
    job, group: (pairs,) indices into `order` and `members`, job by job, where the group has as many GPUs with memory
    and cores for the job as it requests.
    """

    def __init__(self, view: View, order: np.ndarray, *, knows_memory: bool = True) -> None:
        """Find the pairs of this instant; knows_memory: whether profiled memory must suffice."""
        self._view, source = view, source_of(view)
        self.order, self._knows_memory = source.known(order), knows_memory
        self.members, self._found, pairs = _NOBODY, _NOTHING, 0
        if len(order) and (share := int(source.state.max_share)) > 1:
            most = int(source.state.num_gpus)
            self._group_of, members = np.empty(most, np.int32), np.empty((most, share), np.int32)
            self.members = members[: groups.open_groups(source.states, 0, members, self._group_of)]
        if len(self.members):
            self._found = np.empty((len(order), len(self.members)), np.int8)
            pairs = groups.may_join(
                source.states, 0, source.jobs, self.order, knows_memory, self._group_of, self._found
            )
        self.job, self.group = np.nonzero(self._found == groups.ALL) if pairs else (_NONE, _NONE)

    @property
    def by_memory(self) -> np.ndarray:
        """Mask of groups with enough GPUs that have memory for each job: (jobs, groups)."""
        enough: np.ndarray = self._found >= groups.MEMORY
        return enough

    @property
    def sizes(self) -> np.ndarray:
        """Number of members of each group: (groups,)."""
        size: np.ndarray = (self.members >= 0).sum(axis=1)
        return size

    def start(self, job: int, group: int) -> Start | None:
        """Start a job, an index into `order`, in a group, on as few nodes as possible; None without cores."""
        source = source_of(self._view)
        queued, group = source.check(self.order[job]), range(len(self.members))[group]
        gpus = groups.join(source.states, 0, source.jobs, queued, group, self._knows_memory, self._group_of)
        if gpus < source.jobs["num_gpus"][queued]:
            return None
        return Start(queued, Placement(tuple(source.state.gpus[:gpus].tolist())))

    def cheapest(self, cost: np.ndarray) -> Start | None:
        """Start the pair of least cost, (pairs,), of equals the first job, then the first group; infinity forbids."""
        if not len(cost) or np.isinf(cost[best := int(cost.argmin())]):
            return None
        return self.start(int(self.job[best]), int(self.group[best]))


_NONE, _NOBODY, _NOTHING = np.empty(0, np.int64), np.empty((0, 1), np.int32), np.empty((0, 0), np.int8)


class Ended:
    """Jobs of an episode that have ended."""

    def __init__(self) -> None:
        """Begin with none."""
        self._known = np.zeros(0, bool)
        self._count = 0

    def new(self, view: View) -> np.ndarray:
        """Return the jobs that have ended since the last call, by (submit, job)."""
        source = source_of(view)
        if self._count == (count := int(source.state.num_done)):
            return _NONE
        ended = source.present("phase") == DONE
        is_new = ended.copy()
        is_new[: len(self._known)] &= ~self._known
        self._known, self._count = ended, count
        return np.flatnonzero(is_new)


def queued_or_running(view: View) -> np.ndarray:
    """Return the jobs that are queued or run, by (submit, job)."""
    source = source_of(view)
    jobs = np.empty(int(source.state.num_queued) + int(source.state.num_active), np.int64)
    return jobs[: legality.queued_or_running(source.states, 0, jobs)]


def still_queued(view: View, jobs: np.ndarray, others: np.ndarray) -> np.ndarray | None:
    """Return those of some jobs that are queued, in the given order; None if there are other queued jobs than these.

    others: jobs that may be queued as well, none of which is among the first.
    """
    source, kept = source_of(view), np.empty(len(jobs), np.int64)
    some, more = np.ascontiguousarray(jobs, np.int64), np.ascontiguousarray(others, np.int64)
    count = legality.keep_queued(source.states, 0, some, more, kept)
    return None if count == NOBODY else kept[:count]


def may_any_start(view: View) -> bool:
    """Return whether the scenario's placement rule could start a queued job now."""
    source = source_of(view)
    return bool(legality.may_any_start(source.states, 0, source.jobs))


def displaceable(view: View) -> np.ndarray:
    """Return the running jobs whose pause would free GPUs: not started at this instant, and sharing none."""
    source = source_of(view)
    jobs = np.empty(int(source.state.num_active), np.int64)
    return jobs[: room.displaceable(source.states, 0, source.jobs, jobs)]


def by_tenant(view: View, jobs: np.ndarray) -> list[np.ndarray]:
    """Return the jobs of each tenant that has some, in the given order; all jobs at once without tenants."""
    if not len(view.tenants.quota):
        return [jobs]
    of = view.jobs.tenant[jobs]
    return [jobs[of == tenant] for tenant in np.unique(of)]


def efforts(view: View, jobs: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return the seconds for which each of some jobs would hold GPUs from a start to its end, by the estimates."""
    source = source_of(view)
    some = source.known(jobs)
    seconds = np.empty(len(some))
    room.efforts(source.states, 0, source.jobs, some, seconds)
    return seconds


def by_effort(view: View, jobs: np.ndarray) -> np.ndarray:
    """Return jobs sorted by the seconds for which they would hold GPUs; equal ones keep their order."""
    source = source_of(view)
    some = source.known(jobs)
    order = np.empty_like(some)
    room.by_effort(source.states, 0, source.jobs, some, order)
    return order


def wait_for_room(view: View, job: int) -> float:
    """Return the seconds until a job could start, by the estimates, if no other is started or paused; or infinity.

    A job that waits for reserved GPUs will hold them while it loads and for its remaining time.
    """
    source = source_of(view)
    job = source.check(job)
    return float(room.wait_for_room(source.states, 0, source.jobs, job))


def displacement(
    view: View,
    some: np.ndarray,
    cost: np.ndarray,
    *,
    least_run_s: float = 0.0,
    least_gain_s: float = -np.inf,
) -> Displacement | None:
    """Find the job with GPUs that comes first `by_effort`, and the jobs with more remaining time to pause for it.

    None without a job with GPUs, if GPUs are reserved for an earlier one, if the job needs no pause, or if no pauses
    free enough GPUs.
    cost: (jobs,), of pausing each job that has arrived. Of all sets that free enough GPUs the cheapest is taken, of
    equal ones that of fewest jobs, then of most remaining time. Exact on one node; a gang on several takes the cheapest
    node for each part.
    least_run_s: seconds that a job to pause has run since its start.
    least_gain_s: None unless the wait exceeds the effort by more than this, if all pauses take time.
    """
    source, cost = source_of(view), np.array(cost, float)
    if cost.shape != (source.arrived,):
        raise ValueError(
            f"cost of shape {cost.shape}: expected ({source.arrived},), one for each job that has arrived"
        )
    gpus, order = np.empty(int(source.state.num_gpus), np.int32), source.known(some)
    job, effort_s, wait_s, count, memory = room.displacement(
        source.states, 0, source.jobs, order, cost, float(least_run_s), float(least_gain_s), gpus
    )
    if count <= 0:
        return None
    chosen = tuple(gpus[: source.jobs["num_gpus"][job]].tolist())
    return Displacement(job, effort_s, wait_s, Room(source.state.victims[:count].tolist(), chosen, memory))


def room_by_one(view: View, order: np.ndarray, candidates: np.ndarray) -> tuple[int, Room] | None:
    """Find the first of some jobs for which the pause of a single candidate frees enough GPUs of one node, and those.

    The first suitable candidate is taken. None if there is no suitable job.
    """
    source = source_of(view)
    gpus = np.empty(int(source.state.num_gpus), np.int32)
    tried, able = source.known(order), source.known(candidates)
    job, victim = room.room_by_one(source.states, 0, source.jobs, tried, able, gpus)
    if job == NOBODY:
        return None
    chosen = tuple(gpus[: source.jobs["num_gpus"][job]].tolist())
    return job, Room([victim], chosen, float(view.nodes.gpu_memory_gib[view.gpus.node[chosen[0]]]))
