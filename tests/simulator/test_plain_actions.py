"""Actions and arguments that change between the check and the use, or are no numbers, get a policy nothing."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator import search
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.policy import (
    Action,
    Placement,
    Preempt,
    Ranking,
    Resize,
    Start,
    Throttle,
    Wait,
    plain,
)
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.workloads import Scenario, Workload, full_trace
from tests.cases import tiny


@pytest.fixture
def load(tmp_path: Path) -> Workload:
    return full_trace(Scenario(**tiny.scenario(tmp_path, tiny.mixed(1), physics="all")))


# Numbers that lie.


class Less(int):
    """An integer that is less and more than everything."""

    __lt__ = __le__ = __gt__ = __ge__ = lambda *_: True


class Share(float):
    """The same of a float."""

    __lt__ = __le__ = __gt__ = __ge__ = lambda *_: True


class ThenAll(float):
    """A float that is another one at the second look."""

    def __new__(cls, first: float, second: float) -> "ThenAll":
        made = super().__new__(cls, first)
        made.second, made.looks = second, 0  # type: ignore[attr-defined]
        return made

    def __float__(self) -> float:
        self.looks: int = self.looks + 1
        return float.__add__(self, 0.0) if self.looks == 1 else self.second  # type: ignore[attr-defined]


class ThenOthers(tuple[int, ...]):
    """GPUs that are others at the second look."""

    def __new__(cls, first: Sequence[int], second: Sequence[int]) -> "ThenOthers":
        made = super().__new__(cls, first)
        made.second, made.looks = second, 0  # type: ignore[attr-defined]
        return made

    def __iter__(self) -> Iterator[int]:
        self.looks: int = self.looks + 1
        return super().__iter__() if self.looks == 1 else iter(self.second)  # type: ignore[attr-defined]


class ThenLater:
    """An integer that is another one at the second look."""

    def __init__(self, first: int, second: int) -> None:
        self.answers = [second, first]

    def __index__(self) -> int:
        return self.answers.pop() if len(self.answers) > 1 else self.answers[0]

    __int__ = __index__

    def __le__(self, other: object) -> bool:
        return True

    __lt__ = __ge__ = __gt__ = __le__


class TwoFaced(Start):
    """A start whose job is another one at the second look."""

    looks = 0

    @property
    def job(self) -> int:
        type(self).looks += 1
        return TwoFaced.looks


LIARS: dict[str, Callable[[int], SupportsIndex]] = {
    "less than everything": Less,
    "another at the second look": lambda job: ThenLater(0, job),
}
QUESTIONS: dict[str, Callable[[View, Any], Any]] = {
    "can_hold": lambda view, job: view.can_hold(job),
    "type_speed": lambda view, job: view.type_speed(job),
    "profile": lambda view, job: view.profile(job),
    "place": lambda view, job: view.place(job),
    "place_claim": lambda view, job: view.place_claim(job),
    "just_paused": lambda view, job: view.just_paused(job),
    "gpus_of": lambda view, job: view.gpus_of(job),
    "jobs_of": lambda view, job: view.jobs_of([job]).submit_s,
    "start_first": lambda view, job: view.start_first([job]),
    "efforts": lambda view, job: search.efforts(view, [job]),
    "wait_for_room": lambda view, job: search.wait_for_room(view, job),
    "displacement": lambda view, job: search.displacement(
        view, np.array([job]), np.zeros(len(view.jobs.phase))
    ),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("liar", LIARS)
def test_nothing_is_told_of_a_job_to_come(question: str, liar: str, load: Workload) -> None:
    episode = load.episode()
    for _ in range(3):
        episode.advance()
        episode.apply(Wait())
    view, ask = episode.view, QUESTIONS[question]
    come = len(view.jobs.phase)
    assert 0 < come < len(load.jobs)
    told = [told_of(ask, view, LIARS[liar](come + k)) for k in range(3)]
    if liar == "less than everything":
        assert told == [ValueError] * 3
    else:  # the first answer counts, also where it is used
        assert {*told} <= {ValueError, told_of(ask, view, 0)}


def told_of(ask: Callable[[View, Any], Any], view: View, job: Any) -> object:
    """Return an answer, or the kind of error."""
    try:
        return repr(ask(view, job))
    except ValueError:
        return ValueError


def started(view: View) -> Start | Wait:
    """Start the startable job with the shortest estimate."""
    jobs = view.startable
    if not len(jobs):
        return Wait()
    job = int(jobs[view.jobs.estimate_s[jobs].argmin()])
    place = view.place(job)
    assert place is not None
    return Start(job, place)


def on_the_first_gpus(view: View) -> Action:
    if isinstance(action := started(view), Wait):
        return action
    job, place, _ = action
    return Start(job, place._replace(gpus=ThenOthers(place.gpus, range(len(place.gpus)))))


def on_one_gpu(view: View) -> Action:
    if isinstance(action := started(view), Wait):
        return action
    job, place, _ = action
    return Start(job, place._replace(gpus=ThenOthers(place.gpus, place.gpus[:1])))


def on_more_cores(view: View) -> Action:
    if isinstance(action := started(view), Wait):
        return action
    job = action.job
    least = view.place(job, cores=1.0)
    cores = float(view.jobs.cores_each[job])
    if least is None or not view.jobs.num_gpus[job] or view.why_not(Start(job, least)):
        return action
    return Start(job, least._replace(cores=ThenAll(1.0, 2 * cores)))


def on_one_core(view: View) -> Action:
    """Do as `on_more_cores` does, honestly."""
    return plain(on_more_cores(view))


HONEST: dict[Callable[[View], Action], Callable[[View], Action]] = {
    on_the_first_gpus: started,
    on_one_gpu: started,
    on_more_cores: on_one_core,
}


@pytest.mark.parametrize("way", HONEST, ids=lambda way: way.__name__)
def test_what_is_checked_is_carried_out(way: Callable[[View], Action], load: Workload) -> None:
    honest = load.results(run(HONEST[way], load.episode()))
    assert load.results(run(way, load.episode())).equals(honest)


def test_a_start_that_names_another_job_at_the_second_look_is_read_once() -> None:
    TwoFaced.looks = 0
    converted = plain(TwoFaced(0, Placement((0,))))
    assert type(converted) is Start
    assert TwoFaced.looks == 1, "the job is read once"


def queue_and_run(load: Workload) -> Episode:
    """Return an episode in which jobs run and wait."""
    episode = load.episode()
    policy: Any = baselines.load("fifo")
    for _ in range(8):
        episode.advance()
        while not isinstance(action := policy(episode.view), Wait):
            episode.apply(action)
        episode.apply(action)
    episode.advance()
    return episode


@pytest.mark.parametrize(
    "seconds", [-50.0, Share(-50.0), Share("-inf"), Share("nan"), Share(0.0), float("-inf")]
)
def test_time_does_not_run_backwards(seconds: float, load: Workload) -> None:
    episode = queue_and_run(load)
    before = episode.states.tobytes()
    with pytest.raises(ValueError, match="positive number"):
        episode.apply(Wait(seconds))
    with pytest.raises(ValueError, match="positive number"):
        run(lambda view: Wait(seconds), load.episode())
    assert episode.states.tobytes() == before


def test_cores_and_levels_lie_in_vain(load: Workload) -> None:
    episode = queue_and_run(load)
    view = episode.view
    job = int(view.running[0])
    for action in (
        Resize(job, Share("-inf")),
        Resize(job, Share(-500.0)),
        Throttle(int(view.running[-1]), Share(1.0000005)),
        Start(Less(len(load.jobs) - 1), Placement((0,))),
        Start(int(view.waiting[0]), Placement((Less(10**6),))),
    ):
        assert view.why_not(action)
        with pytest.raises(ValueError, match="job"):
            episode.apply(action)


# What is no number.

ODD: list[Any] = [
    *(Start(0.5, Placement((0,))), Start(np.nan, Placement((0,))), Start("0", Placement((0,)))),  # type: ignore[arg-type]
    *(Start(0, Placement((0.9,))), Start(0, Placement("0")), Start(0, Placement(None))),  # type: ignore[arg-type]
    *(Start(0, Placement((10**12,))), Start(0, Placement((-(10**12),))), Start(0, Placement((10**30,)))),
    *(Start(0, Placement((0,), "x")), Start(0, Placement((0,), 1, 10**12)), Start(10**30, Placement((0,)))),  # type: ignore[arg-type]
    *(Start(0, Placement((0,), workers=10**30)), Start(0, Placement((0,), servers=1.5)), Start(0, (0,))),  # type: ignore[arg-type]
    *(Wait("x"), Wait("1"), Wait(np.array([1.0, 2.0])), Wait(np.nan), Wait(1j), Wait(10**400)),  # type: ignore[arg-type]
    *(Preempt(None), Preempt(0.5), Resize(0, "x"), Resize(0, "1"), Resize("0", 1.0), Throttle(0, None)),  # type: ignore[arg-type]
    *(None, 42, (0,), "wait", Start),
]


@pytest.mark.parametrize("action", ODD, ids=repr)
def test_odd_actions_get_one_sentence(action: Any, load: Workload) -> None:
    episode = queue_and_run(load)
    why = episode.why_not(action)
    assert why is not None
    assert "\n" not in why
    with pytest.raises(ValueError, match=r"^at [\d.e+]+ s: .+$") as raised:
        episode.apply(action)
    assert str(raised.value).endswith(why)
    with pytest.raises(ValueError, match=r"^at [\d.e+]+ s: .+$"):
        run(lambda view: action, load.episode())


@pytest.mark.parametrize("job", [0.5, "0", None, np.array([0, 1]), (0,)], ids=repr)
def test_odd_jobs_get_one_sentence(job: Any, load: Workload) -> None:
    view = queue_and_run(load).view
    for name, ask in QUESTIONS.items():
        if name != "jobs_of":
            with pytest.raises(ValueError, match=r"integer"):
                ask(view, job)
    with pytest.raises(ValueError, match="integer"):
        view.pick(job)
    for jobs in ([0.5], ["0"], [True, False], 3, [[0, 1]]):
        with pytest.raises(ValueError, match="list or an array of integers"):
            view.jobs_of(jobs)  # type: ignore[arg-type]


def test_odd_places_get_one_sentence(load: Workload) -> None:
    view = queue_and_run(load).view
    odd: list[dict[str, Any]] = [
        {"gpus": -1},
        {"gpus": 0.5},
        {"gpus": 10**30},
        {"cores": "x"},
        {"rule": "pooled"},
    ]
    for choices in odd:
        with pytest.raises(ValueError, match=r"expected"):
            view.place(0, **choices)
    assert view.place(0, gpus=10**6) is None
    with pytest.raises(ValueError, match=r"one for each job"):
        search.displacement(view, view.queue, np.zeros(1))


def test_numbers_of_numpy_are_numbers(load: Workload) -> None:
    action = Start(np.int64(3), Placement(np.array([1, 0]), np.float32(2), np.int8(1)), np.bool_(1))  # type: ignore[arg-type]
    assert plain(action) == Start(3, Placement((1, 0), 2.0, 1), claim=True)
    found = plain(action)
    assert {type(each) for each in (*found[1][0], found[0], found[1][2])} == {int}  # type: ignore[index,misc]
    assert type(plain(Wait(3))[0]) is float


# Rankings that pass for something else later.


def test_a_ranking_cannot_become_an_oracle_after_its_check(load: Workload) -> None:
    ranking = Ranking("remaining", "by_order")
    honest = load.results(run(ranking, load.episode(), step_by_step=True))

    def turns(view: View) -> Action:
        object.__setattr__(ranking, "key", "remaining")
        action = view.next_move(ranking)
        object.__setattr__(ranking, "key", "true_remaining")
        return action

    assert load.results(run(turns, load.episode())).equals(honest)


class Chameleon:
    """An object that passes for a ranking when it is asked for the third time."""

    key, preempt, exponent, margin, discipline, levels = "true_remaining", "by_order", 0.0, 0.0, None, ()
    asked = 0

    def __init__(self, from_then: int) -> None:
        self.from_then = from_then

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        Chameleon.asked += 1
        return Ranking if Chameleon.asked >= self.from_then else Chameleon

    def __call__(self, view: View) -> Action:
        return started(view)


@pytest.mark.parametrize("from_then", range(1, 6))
def test_an_object_that_passes_for_a_ranking_is_asked_or_refused(from_then: int, load: Workload) -> None:
    honest = load.results(run(started, load.episode()))
    Chameleon.asked = 0
    try:
        found = load.results(run(Chameleon(from_then), load.episode()))
    except ValueError:
        return  # it is refused
    assert found.equals(honest)
