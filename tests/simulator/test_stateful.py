"""Any sequence of actions on an episode agrees with a plain account and keeps all invariants."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from gpu_cluster_gym.simulator.kernel.cluster.layout import PHASES
from gpu_cluster_gym.simulator.policy import Action, Placement, Preempt, Start, Wait
from tests.accounts.ledger import Ledger
from tests.accounts.reference import Job, Node, Rules
from tests.accounts.shadow import Shadow
from tests.cases.scenarios import episode_of

TICK_S = 40.0
RULES = Rules("submit", preempt=False, tick_s=TICK_S)
ARRIVALS = st.sampled_from([0.0, 0.0, 0.0, 5.0, 20.0, 60.0])
LENGTHS = st.integers(1, 200).map(float)
COSTS = st.sampled_from([0.0, 3.0, 10.0])
NODES = st.builds(Node, st.integers(1, 4), st.sampled_from([8.0, 16.0]), st.just(24))


@st.composite
def workloads(draw: st.DrawFn) -> tuple[list[Job], list[Node]]:
    """Draw a few nodes, and a few jobs that fit on the first of them."""
    nodes = draw(st.lists(NODES, min_size=1, max_size=3))
    gpus, memory = st.integers(1, nodes[0].gpus), st.sampled_from([4.0, nodes[0].gpu_memory_gib])
    job = st.builds(Job, ARRIVALS, gpus, LENGTHS, LENGTHS, memory, COSTS, COSTS)
    jobs = draw(st.lists(job, min_size=1, max_size=8))
    return sorted(jobs, key=lambda job: job.submit_s), nodes


class Cluster(RuleBasedStateMachine):
    """Make moves, sensible and senseless ones, on an episode and on its shadow."""

    @initialize(workload=workloads())
    def begin(self, workload: tuple[list[Job], list[Node]]) -> None:
        jobs, nodes = workload
        self.episode = episode_of(jobs, nodes, RULES)
        self.ledger = Ledger(self.episode)
        self.shadow = Shadow(jobs, nodes, TICK_S)
        self.advance()

    def advance(self) -> None:
        assert self.ledger.advance() == self.shadow.advance()

    def act(self, action: Action) -> None:
        """Do it to both, or see that both refuse."""
        legal = self.shadow.is_legal(action)
        reason = self.episode.why_not(action)
        assert (reason is None) == legal, (action, reason)
        if legal:
            self.ledger.apply(action)
            self.shadow.apply(action)
        else:
            with pytest.raises(ValueError, match=r"is illegal|cannot|has not arrived"):
                self.episode.apply(action)

    @precondition(lambda self: self.shadow.in_phase("queued"))
    @rule(data=st.data())
    def start_where_it_fits(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(self.shadow.in_phase("queued")))
        placement = self.episode.view.place(job)
        if placement:
            assert {self.shadow.owners("gpus")[gpu] for gpu in placement.gpus} == {-1}
            self.act(Start(job, placement))

    @precondition(lambda self: self.shadow.in_phase("queued"))
    @rule(data=st.data())
    def start_on_gpus_that_are_or_will_be_free(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(self.shadow.in_phase("queued")))
        usable = data.draw(st.permutations(self.shadow.usable(job)))
        if data.draw(st.booleans()):
            usable.sort(key=lambda gpu: self.shadow.owners("gpus")[gpu], reverse=True)  # the held ones first
        self.act(Start(job, Placement(tuple(usable[: self.shadow.fates[job].job.num_gpus]))))

    @precondition(lambda self: self.shadow.in_phase("queued"))
    @rule(data=st.data())
    def start_on_gpus_that_may_be_somebodys(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(self.shadow.in_phase("queued")))
        gpus = data.draw(st.permutations(range(len(self.shadow.memory))))
        self.act(Start(job, Placement(tuple(gpus[: self.shadow.fates[job].job.num_gpus]))))

    @precondition(lambda self: self.shadow.in_phase("queued"))
    @rule(data=st.data())
    def claim_gpus(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(self.shadow.in_phase("queued")))
        gpus = data.draw(st.permutations(self.shadow.usable(job, claim=True)))
        placement = Placement(tuple(gpus[: self.shadow.fates[job].job.num_gpus]))
        if data.draw(st.booleans()):
            placement = self.episode.view.place_claim(job) or placement
        self.act(Start(job, placement, claim=True))

    @precondition(lambda self: self.preemptible())
    @rule(data=st.data())
    def preempt_a_running_job(self, data: st.DataObject) -> None:
        self.act(Preempt(data.draw(st.sampled_from(self.preemptible()))))

    def preemptible(self) -> list[int]:
        return [job for job in self.shadow.in_phase("running") if self.shadow.is_legal(Preempt(job))]

    @rule(job=st.integers(-1, 8), gpus=st.none() | st.lists(st.integers(-1, 12), max_size=4))
    def do_anything(self, job: int, gpus: list[int] | None) -> None:
        self.act(Preempt(job) if gpus is None else Start(job, Placement(tuple(gpus))))

    @rule(seconds=st.sampled_from([1.0, 1.0, 4.0, 15.0, None, -2.0]))
    def wait(self, seconds: float | None) -> None:
        if not self.episode.done:
            self.act(Wait(seconds))
            if self.shadow.is_legal(Wait(seconds)):
                self.advance()

    @invariant()
    def the_accounts_agree(self) -> None:
        state, shadow = self.episode.state, self.shadow
        assert (state.clock, state.instant) == (shadow.clock, shadow.instant)
        assert [PHASES[phase] for phase in self.ledger.phase] == [fate.phase for fate in shadow.fates]
        assert self.episode.view.gpus.first_owner.tolist() == shadow.owners("gpus")
        assert self.episode.view.gpus.reserved_for.tolist() == shadow.owners("wanted")
        assert self.ledger.column("attained_s").tolist() == [
            fate.job.duration_s if fate.phase == "done" else fate.attained for fate in shadow.fates
        ]

    @invariant()
    def no_law_is_broken(self) -> None:
        assert self.ledger.broken == {}

    def teardown(self) -> None:
        """Run the remaining jobs first come, first served, and check the final account."""
        while hasattr(self, "ledger") and not self.episode.done:
            while len(ready := self.episode.view.startable) and (where := self.episode.view.place(ready[0])):
                self.act(Start(int(ready[0]), where))
            self.act(Wait())
            self.advance()
            self.the_accounts_agree()
        assert self.ledger.close().broken == {}


UNHURRIED = settings(
    deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
Cluster.TestCase.settings = settings(UNHURRIED, max_examples=80, stateful_step_count=50, derandomize=True)
TestCluster = Cluster.TestCase


@pytest.mark.slow  # some six minutes of new examples each time
def test_many_more_moves() -> None:
    run_state_machine_as_test(
        Cluster, settings=settings(UNHURRIED, max_examples=5_000, stateful_step_count=200)
    )
