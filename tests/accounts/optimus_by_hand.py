"""Optimus in plain Python, with which the compiled policy is compared move by move."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.policy import Action
from gpu_cluster_gym.simulator.speed_model import Speeds
from gpu_cluster_gym.simulator.vocabulary import CLOSED, MAX_SERVERS, OPEN
from tests.accounts.shape_rounds import Rounds
from tests.accounts.shapes import Now, Request, Shape, active, asked, cores_each, cores_feeding, smaller

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View


class Claim(NamedTuple):
    """Claim of a job: iterations left, seconds of one by workers and servers, maximum of workers, cores a GPU."""

    iterations: float
    seconds: list[list[float]]
    most: int
    feeding: float

    def need(self, shape: Shape) -> np.ndarray:
        """Return the GPUs and cores that a shape takes."""
        return shape.workers * np.array([1.0, cores_each(self.feeding, shape)])

    def offers(self, shape: Shape, whole: np.ndarray) -> list["Offer"]:
        """Return offers of one more worker and one more server, as far as the job can have them and gains."""
        more = [shape._replace(workers=shape.workers + 1)] * (shape.workers < self.most)
        more += [shape._replace(servers=shape.servers + 1)] * (0 < shape.servers < MAX_SERVERS)
        now_s = self.seconds[shape.workers][shape.servers]
        saved = [self.iterations * (now_s - self.seconds[each.workers][each.servers]) for each in more]
        takes = [self.need(each) - self.need(shape) for each in more]
        return [
            Offer(gain / float((take / whole).max()), each, take)
            for gain, each, take in zip(saved, more, takes, strict=True)
            if gain > 0
        ]


class Offer(NamedTuple):
    """One more worker or server for a job: seconds saved per share of the scarcer resource, and resources."""

    worth: float
    shape: Shape
    takes: np.ndarray


class OptimusByHand:
    """One episode of the policy; see `baselines.optimus.Optimus`."""

    def __init__(self, round_s: float = 300.0, error: float = 0.0) -> None:
        """Begin an episode."""
        self._error = error
        self._rounds = Rounds(self._plan, round_s)
        self._speeds = Speeds()
        self._wrong_by = np.empty(0)
        self._shares: dict[int, Shape] = {}

    def __call__(self, view: "View") -> Action:
        """Return the next move."""
        return self._rounds(view)

    def _plan(self, now: Now, full: bool) -> list[Request]:
        """Return the shares of all jobs, those first that got one in the last interval."""
        jobs = active(now).tolist()
        least = {job: Shape(int(now.jobs.min_workers[job]), int(now.jobs.servers[job] > 0)) for job in jobs}
        if full:
            self._shares = self._divide(now, least)
        shares = {job: shape for job, shape in self._shares.items() if job in least}
        shares |= {job: least[job] for job in jobs if job not in shares}
        return [Request(job, [shape, *smaller(shape, least[job].workers)]) for job, shape in shares.items()]

    def _divide(self, now: Now, least: dict[int, Shape]) -> dict[int, Shape]:
        """Return the shares of those jobs that get any, in the order of arrival."""
        cores = now.nodes.cores[now.nodes.closed == OPEN].sum() if now.view.cpu_limited else np.inf
        left = np.array([(now.gpus.reserved_for != CLOSED).sum(), cores])
        whole, claims = np.maximum(left, 1.0), self._claims(now, list(least))
        shares: dict[int, Shape] = {}
        for job, shape in least.items():
            if (claims[job].need(shape) <= left).all():
                shares[job], left = shape, left - claims[job].need(shape)
        offers = {job: claims[job].offers(shape, whole) for job, shape in shares.items()}
        while True:
            fitting = [
                (offer.worth, -job, offer)
                for job, some in offers.items()
                for offer in some
                if (offer.takes <= left).all()
            ]
            if not fitting:
                return shares
            _, job, offer = max(fitting, key=lambda each: each[:2])
            shares[-job], left = offer.shape, left - offer.takes
            offers[-job] = claims[-job].offers(offer.shape, whole)

    def _claims(self, now: Now, jobs: list[int]) -> dict[int, Claim]:
        """Return the claims of jobs, as far as this policy knows."""
        errors = self._error * now.view.rng.standard_normal(len(now.jobs.phase) - len(self._wrong_by))
        self._wrong_by = np.append(self._wrong_by, np.exp(errors))
        iterations = now.jobs.remaining_s * self._wrong_by
        feeding, claims = cores_feeding(now), {}
        for job in jobs:
            shape, table = asked(now, job), self._speeds.table(now.view, job)
            left = float(iterations[job]) / table[shape.workers][shape.servers]
            claims[job] = Claim(left, table, int(now.jobs.max_workers[job]), feeding[job])
        return claims
