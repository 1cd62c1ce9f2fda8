"""Attacks by policies on data that they must not read or change, and the slowdown caused by the protection.

`benchmarks.trust` runs them.
"""

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from gpu_cluster_gym import baselines, traces
from gpu_cluster_gym.agents import load_policy
from gpu_cluster_gym.agents.pretrained import SHIPPED, shipped
from gpu_cluster_gym.envs.agent_policy import AgentPolicy
from gpu_cluster_gym.envs.env import PlainBatch, base_policy
from gpu_cluster_gym.envs.moves import MovesBatch
from gpu_cluster_gym.envs.spaces import row
from gpu_cluster_gym.envs.steer import SteerBatch
from gpu_cluster_gym.envs.windows import DEFAULT, PreparedWindow
from gpu_cluster_gym.evaluation.audit import Audited, audit, random_workload, try_table
from gpu_cluster_gym.evaluation.runner import Maker, is_oracle, run_window
from gpu_cluster_gym.simulator import episode as episode_module
from gpu_cluster_gym.simulator import view as view_module
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Action, Policy, Preempt, Ranking, Start, Wait
from gpu_cluster_gym.simulator.results import PARTS
from gpu_cluster_gym.simulator.shadow import Shadow
from gpu_cluster_gym.simulator.source import Source, source_of
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.workloads import Scenario, Workload, full_trace, named, windows
from tests.cases import tiny
from tests.simulator import test_out_of_reach as out_of_reach
from tests.simulator import test_plain_actions as plain_actions

PAIRS, LEAK_TABLES, INSTANTS = 5000, 60, 1_000_000
MOST_SLOWDOWN = 1.05  # by the shadow record
STEPS = 300  # of a random episode
ROUNDING = 1e-6

AGENTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "plain with hints": {"hints": True, "victims_by": "rule"},
    "plain with hints, tables": {"hints": True, "victims_by": "rule", "observation": "tables"},
    "plain, own places": {"placed_by": "agent"},
    "moves": {"action": "moves"},
    "moves with cores": {"action": "moves", "cores": True},
    "steer": {"action": "steer"},
}
"""Keywords of an agent for each action kind and observation."""


class Figure(NamedTuple):
    """Result of an attack: numbers of trials and of failures, with examples."""

    what: str
    tried: int
    wrong: int
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return a line."""
        verdict = "ok" if self.wrong == 0 else f"WRONG: {'; '.join(self.examples)}"
        return f"{self.what:<60} {self.wrong:>5} of {self.tried:<6} {verdict}"


def figure(what: str, faults: list[str]) -> Figure:
    """Return the result of trials, given what went wrong in each, an empty string for nothing."""
    wrong = [fault for fault in faults if fault]
    return Figure(what, len(faults), len(wrong), (*wrong[:3],))


# Leaks of the policies that exist, and of agents that act by all that they observe.


def leaks(pairs: int = PAIRS) -> Iterator[Figure]:
    """Audit every policy, shipped agent, action kind and observation; a failure is a pair whose decisions differ."""
    makers: dict[str, Maker] = {name: partial(baselines.make, baselines.load(name)) for name in honest()}
    makers |= {f"ppo of {name}": partial(load_policy, SHIPPED / name) for name in shipped()}
    makers |= {f"an agent by {kind}": partial(hashing_agent, kind) for kind in AGENTS}
    found = audit(makers, pairs=-(-pairs // (len(makers) + 1)))
    for each in found:
        examples = tuple(str(leak) for leak in each.leaks[:1])
        yield Figure(f"pairs with different decisions, {each.name}", each.pairs, len(each.leaks), examples)
    untried = [str(each) if not each.pairs else "" for each in found]
    yield figure("policies of which no pair could be tried", untried)


def honest() -> list[str]:
    """Return the names of the policies that do not use hidden data."""
    return [name for name in baselines.quick_names() if not is_oracle(name)]


def hashing_agent(kind: str) -> Policy:
    """Return an agent whose actions depend on every number of its observation."""
    return AgentPolicy(by_steering if "steer" in kind else by_hash, **AGENTS[kind])


def by_hash(observation: Any, mask: np.ndarray) -> int:
    """Return a legal action, mostly one of the first, chosen by a hash of the observation."""
    legal, number = np.flatnonzero(mask), hashed(observation)
    return int(legal[number % len(legal)] if number % 3 == 0 else legal[0])


def by_steering(observation: Any, mask: np.ndarray) -> np.ndarray:
    """Return weights chosen by a hash of the observation."""
    return np.random.default_rng(hashed(observation)).uniform(-1, 1, len(mask))


def hashed(observation: Any) -> int:
    """Return a hash of the numbers to three digits, since sums over other jobs may round differently."""
    parts = observation.values() if isinstance(observation, Mapping) else [observation]
    found = hashlib.blake2b(digest_size=6)
    with np.errstate(over="ignore"):
        for part in parts:
            found.update(np.asarray(part, np.float16).tobytes())
    return int.from_bytes(found.digest(), "big")


# Planted leaks: policies that use what nobody can know.

Truth = Callable[[Source, int], float]
Order = Callable[[np.ndarray], np.ndarray]
OF_JOBS = ("duration_s", "crash_at", "predictable_from", "gpu_memory_gib", "predicted_duration_s")
TO_COME = ("submit_s", "num_gpus", "user", "duration_s", "profiled_duration_s", "pause_s", "load_s")


def cell(name: str) -> Truth:
    """Return a function that reads a hidden field of a job."""
    return lambda source, job: float(source.jobs[name][job])


def next_cell(name: str) -> Truth:
    """Return a function that reads a field of the next job to arrive."""
    return lambda source, job: float(source.jobs[name][source.arrived : source.arrived + 1].sum())


def total(name: str) -> Truth:
    """Return a function that sums a field over all jobs, including later ones."""
    return lambda source, job: float(source.jobs[name].sum())


def ascending(numbers: np.ndarray) -> np.ndarray:
    """Order jobs by their numbers."""
    return np.argsort(numbers, kind="stable")


def descending(numbers: np.ndarray) -> np.ndarray:
    """Order jobs by their numbers, largest first."""
    return np.argsort(-numbers, kind="stable")


def reversing(every: int) -> Order:
    """Return an order that is reversed if a hash of the numbers is divisible by `every`."""

    def order(numbers: np.ndarray) -> np.ndarray:
        return np.arange(len(numbers))[:: -1 if hash_of(numbers) % every == 0 else 1]

    return order


def rotating(numbers: np.ndarray) -> np.ndarray:
    """Begin at a place chosen by a hash of the numbers."""
    return np.roll(np.arange(len(numbers)), hash_of(numbers))


def hash_of(numbers: np.ndarray) -> int:
    """Return a hash of the sum of the numbers and of the length of the queue."""
    content = np.array([np.sum(numbers), len(numbers)]).tobytes()
    return int.from_bytes(hashlib.blake2b(content, digest_size=2).digest(), "big")


def planted() -> dict[str, tuple[Truth, Order]]:
    """Return sixty leaks: five hidden numbers of a job, and ten of what is to come, each used in four ways."""
    hashes: dict[str, Order] = {"at halves": reversing(2), "at thirds": reversing(3), "rotating": rotating}
    of_jobs: dict[str, Order] = {"ascending": ascending, "descending": descending}
    of_jobs |= {name: hashes[name] for name in ("at halves", "at thirds")}
    to_come = {f"the next job's {name}": next_cell(name) for name in TO_COME}
    to_come |= {f"all jobs' {name}": total(name) for name in TO_COME[:2]}
    to_come["the number of jobs"] = lambda source, job: float(len(source.jobs))
    found = {f"{name}, {way}": (cell(name), order) for name in OF_JOBS for way, order in of_jobs.items()}
    ways = hashes | {"at fifths": reversing(5)}
    return found | {f"{what}, {way}": (t, o) for what, t in to_come.items() for way, o in ways.items()}


def planted_leaks(tables: int = LEAK_TABLES) -> Iterator[Figure]:
    """Plant sixty leaks; a failure is one that no pair shows."""
    faults = []
    for name, (truth, order) in planted().items():
        found = Audited(name)
        for seed in range(tables):
            try_table(found, partial(partial, leaking, truth, order), seed, 3)
            if found.leaks:
                break
        faults.append("" if found.leaks else name)
    yield figure("planted leaks that are not found", faults)


def leaking(truth: Truth, order: Order, view: View) -> Action:
    """Start the first waiting job that fits, in an order by hidden numbers."""
    source, queue = source_of(view), view.waiting
    numbers = np.array([truth(source, int(job)) for job in queue])
    for job in queue[order(numbers)].tolist() if len(queue) else []:
        if (place := view.place(job)) and not view.why_not(Start(job, place)):
            return Start(job, place)
    return Wait()


# Random steps.


def fuzz(instants: int = INSTANTS, seed: int = 0) -> Iterator[Figure]:
    """Play random actions on random jobs, clusters and physics; a failure is an episode that breaks a law, or fails."""
    faults: list[str] = []
    done = illegal = 0
    while done < instants:
        seed += 1
        rng = traces.stream(seed, "audit")
        try:
            load = random_workload(rng)
        except ValueError:
            continue  # the jobs do not fit the cluster, or the physics excludes the placement
        kind = list(AGENTS)[seed % len(AGENTS)]
        try:
            fault, ran, refused = played(load, kind, np.random.default_rng(seed))
        except Exception as error:  # any error is a finding, and the next episode must still be played
            fault, ran, refused = f"{type(error).__name__}: {error}", 1, 0
        done, illegal = done + ran, illegal + refused
        faults.append(f"seed {seed}, {kind}: {fault}" if fault else "")
    yield figure(f"random episodes that fail, {done:,} instants, {illegal:,} illegal actions", faults)


def batch_of(load: Workload, kind: str) -> PlainBatch | MovesBatch | SteerBatch:
    """Return a batch of one environment of an action kind."""
    choices = {name: value for name, value in AGENTS[kind].items() if name != "action"}
    action = AGENTS[kind].get("action", "plain")
    if action != "steer":
        choices["illegal"] = "raise"
    hints = bool(choices.get("hints"))
    reference = base_policy(0.0, np.inf, hints=hints) if action == "plain" else DEFAULT
    kinds = {"plain": PlainBatch, "moves": MovesBatch, "steer": SteerBatch}
    made: PlainBatch | MovesBatch | SteerBatch = kinds[action](
        [PreparedWindow(load, reference)], 1, **choices
    )
    return made


def played(load: Workload, kind: str, rng: np.random.Generator) -> tuple[str, int, int]:
    """Play an episode; return what went wrong, its instants, and the illegal actions that were refused."""
    batch = batch_of(load, kind)
    batch.begin(0, 0)
    steps = illegal = 0
    while not batch.over[0] and steps < STEPS:
        observation, mask = row(batch.observations(), 0), batch.masks()[0].astype(bool)
        if not finite(observation):
            return f"an observation is not finite after {steps} steps", 1, illegal
        if isinstance(batch, SteerBatch):
            action = rng.uniform(-1, 1, (1, mask.size)).astype(np.float32)
        else:
            legal = np.flatnonzero(mask)
            if not len(legal):
                return f"no action is legal after {steps} steps", 1, illegal
            if rng.random() < 0.05 and not mask.all():
                illegal += 1
                try:
                    batch.step(np.array([rng.choice(np.flatnonzero(~mask))]))
                except ValueError:
                    pass
                else:
                    return "an illegal action was accepted", 1, illegal
            action = np.array([rng.choice(legal) if rng.random() < 0.5 else legal[0]])
        batch.step(action)
        if not np.isfinite(batch.rewards[0]) or batch.elapsed_s[0] < 0:
            return f"a reward of {batch.rewards[0]} after {batch.elapsed_s[0]} s", 1, illegal
        steps += 1
    state = batch.states[0]
    return broken_law(batch), max(1, int(state["instant"])), illegal


def finite(observation: Any) -> bool:
    """Return whether every number of an observation is finite."""
    parts = observation.values() if isinstance(observation, Mapping) else [observation]
    return all(np.isfinite(np.asarray(part, float)).all() for part in parts)


def broken_law(batch: PlainBatch | MovesBatch | SteerBatch) -> str:
    """Return which law the last state breaks, or nothing."""
    view = batch.view(0)
    if (view.gpus.free_memory_gib < -ROUNDING).any():
        return "negative free memory"
    if (view.nodes.free_cores < -ROUNDING).any():
        return "negative free cores"
    if not batch.terminated[0]:
        return ""
    table, episode = batch.results(0), batch.windows[0].workload.episode()
    if (table["jct_s"].to_numpy() < episode.fastest_s * (1 - ROUNDING) - ROUNDING).any():
        return "a job ended sooner than it can run"
    parts = table[PARTS].sum(axis=1)
    if not np.allclose(parts, table["jct_s"], 1e-5, 1e-5):
        return "the parts of a job's time do not sum to its completion time"
    if int(batch.states[0]["num_free"]) > int(batch.states[0]["num_gpus"]):
        return "more GPUs are free than there are"
    return ""


# Attacks on hidden data and on the record, from the tests.


def ways() -> Iterator[Figure]:
    """Play the attacks of the tests; a failure is one whose result is not that of its honest twin, nor refused."""
    with tempfile.TemporaryDirectory() as folder:
        load = full_trace(Scenario(**tiny.scenario(Path(folder), tiny.mixed(1), physics="all")))
        for kind, attacks in kinds_of_attacks().items():
            faults = []
            for name, (attack, honest) in attacks.items():
                expected = load.results(run(honest(), load.episode(), step_by_step=True))
                try:
                    is_equal = run_window(attack, load).equals(expected)
                except (ValueError, RuntimeError):
                    is_equal = True  # it was refused
                faults.append("" if is_equal else name)
            yield figure(f"attacks that change a result: {kind}", faults)


Attack = tuple[Maker, Maker]
"""A maker of a policy that attacks, and one of its honest twin."""


def kinds_of_attacks() -> dict[str, dict[str, Attack]]:
    """Return the attacks of the tests by kind and name."""

    def trying(does: Callable[[View], object]) -> Attack:
        return partial(partial, taking, does), lambda: Ranking("submit")

    future = {
        f"{question}, {liar}": trying(partial(asked_of_the_future, ask, lie))
        for question, ask in plain_actions.QUESTIONS.items()
        for liar, lie in plain_actions.LIARS.items()
    }
    chameleons = range(1, 6)
    return {
        "rankings by what they say": {
            name: trying(lambda view, make=make: view.next_move(make()))  # type: ignore[misc]
            for name, make in out_of_reach.RANKINGS.items()
        },
        "writing through the view": {
            way.__name__: (partial(partial, writing, way), lambda: Ranking("submit"))
            for way in out_of_reach.WRITING
        },
        "making the jobs again": {
            name: trying(lambda _, make=make: make())  # type: ignore[misc]
            for name, make in out_of_reach.generators().items()
        },
        "compiled policies of others": dict(out_of_reach.COMPILED),
        "actions that change after their check": {
            way.__name__: (partial(itself, way), partial(itself, honest))
            for way, honest in plain_actions.HONEST.items()
        },
        "objects that pass for rankings later": {
            f"at look {look}": (
                partial(plain_actions.Chameleon, look),
                partial(itself, plain_actions.started),
            )
            for look in chameleons
        },
        "questions about jobs to come": future,
        "waits into the past": {
            f"{seconds} s, a {type(seconds).__name__}": trying(partial(back_in_time, seconds))
            for seconds in (-50.0, plain_actions.Share(-50.0), plain_actions.Share("-inf"))
        },
    }


def itself(policy: Policy) -> Policy:
    """Return a policy."""
    return policy


def taking(does: Callable[[View], object], view: View) -> Action:
    """Take what an attack returns: a move as it is, anything else as a sign to start the last job first."""
    try:
        found = does(view)
    except (ValueError, RuntimeError, IndexError):
        return view.next_move(Ranking("submit"))
    if isinstance(found, Start | Preempt | Wait):
        return found
    last = view.startable[-1:].tolist()
    return Start(last[0], place) if last and (place := view.place(last[0])) else Wait()


def writing(way: Callable[[View], object], view: View) -> Action:
    """Try to write through a view, and schedule by submission."""
    with suppress(AttributeError, TypeError, ValueError, IndexError):
        way(view)
    return view.next_move(Ranking("submit"))


def asked_of_the_future(ask: Callable[[View, Any], Any], lie: Callable[[int], Any], view: View) -> object:
    """Ask about the next job to come, or return the next honest move if the answer is that about job 0."""
    answer = repr(ask(view, lie(len(view.jobs.phase))))
    if answer == repr(ask(view, 0)):
        raise ValueError("the answer is about job 0")
    return answer


def back_in_time(seconds: float, view: View) -> Action:
    """Wait into the past if that is legal."""
    move = view.next_move(Ranking("submit"))
    past = Wait(seconds)
    return past if isinstance(move, Wait) and view.why_not(past) is None else move


# Slowdown by copies and checks.


def slowdown(seconds: float = 30.0) -> Iterator[Figure]:
    """Simulate a policy with all copies and checks, and with the record lent; a failure is a ratio above 1.05.

    Copies are those of jobs and of the state; checks are those of actions, and that nothing changed in the episode.
    """
    load = next(iter(windows(named("quick"), "test", 1)))
    best = {True: np.inf, False: np.inf}
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        for guarded in best:
            with nullcontext() if guarded else unguarded():
                before = time.process_time()
                load.results(run(shortest, load.episode()))
                best[guarded] = min(best[guarded], time.process_time() - before)
    ratio = best[True] / best[False]
    what = f"slowdown by copies and checks: {ratio:.3f} (limit {MOST_SLOWDOWN})"
    yield figure(what, [f"{ratio:.3f}" if ratio > MOST_SLOWDOWN else ""])


@contextmanager
def unguarded() -> Iterator[None]:
    """Lend the record, and check neither actions for their types nor the episode for changes."""
    with (
        patch.object(Shadow, "column", lent),
        patch.object(view_module, "snapshot", read_only),
        patch.object(episode_module, "plain", itself),
        patch.object(Workload, "_refuse_changed", lambda load, episode: None),
    ):
        yield


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a view of an array that cannot be written."""
    shown = array.view()
    shown.flags.writeable = False
    return shown


def lent(shadow: Shadow, field: str, arrived: int) -> np.ndarray:
    """Return a field of the jobs that have arrived, without a copy."""
    cells: np.ndarray = shadow._jobs[field][:arrived]
    cells.flags.writeable = False
    return cells


def shortest(view: View) -> Action:
    """Start the job with the shortest estimate of those that fit."""
    startable = view.startable
    if not len(startable):
        return Wait()
    job = int(startable[view.jobs.estimate_s[startable].argmin()])
    place = view.place(job)
    return Start(job, place) if place else Wait()
