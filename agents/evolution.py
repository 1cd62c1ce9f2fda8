"""CMA-ES: search for the numbers at which a function is least, by drawing candidates about the best so far.

Hansen, "The CMA evolution strategy: a tutorial" (arXiv 1604.00772), with its default rates.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Evolution:
    """A normal distribution that moves, turns and stretches towards the better half of what was drawn from it."""

    def __init__(self, start: Floats, sigma: float, *, population: int, rng: np.random.Generator) -> None:
        """Begin round `start`, (n,), with `sigma` in every direction; so many candidates, at least 4, a generation."""
        n, half = len(start), population // 2
        self.mean, self.sigma, self.covariance = start.astype(float), sigma, np.eye(n)
        self.population, self.generation = population, 0
        self._rng, self._root, self._inverse = rng, np.eye(n), np.eye(n)
        ranks = np.log((population + 1) / 2) - np.log(np.arange(1, half + 1))
        self._weights = ranks / ranks.sum()
        self._mass = mass = float(1 / (self._weights**2).sum())
        self._step_path, self._path = np.zeros(n), np.zeros(n)
        self._step_rate = (mass + 2) / (n + mass + 5)
        self._damping = 1 + 2 * max(0.0, np.sqrt((mass - 1) / (n + 1)) - 1) + self._step_rate
        self._path_rate = (4 + mass / n) / (n + 4 + 2 * mass / n)
        self._one_rate = 2 / ((n + 1.3) ** 2 + mass)
        self._many_rate = min(1 - self._one_rate, 2 * (mass - 2 + 1 / mass) / ((n + 2) ** 2 + mass))
        self._usual = np.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2))  # length of a standard normal vector

    def ask(self) -> Floats:
        """Draw the candidates of a generation, (population, n)."""
        variance, axes = np.linalg.eigh(self.covariance)
        deviation = np.sqrt(np.maximum(variance, 1e-20))
        self._root, self._inverse = axes * deviation, (axes / deviation) @ axes.T
        normal = self._rng.standard_normal((self.population, len(self.mean)))
        return self.mean + self.sigma * normal @ self._root.T

    def tell(self, candidates: Floats, values: Floats) -> None:
        """Learn from the values of the candidates, (population,): the lower, the better. Only their order counts."""
        self.generation += 1
        better = candidates[np.argsort(values, kind="stable")[: len(self._weights)]]
        steps = (better - self.mean) / self.sigma
        step = self._weights @ steps
        self.mean = self.mean + self.sigma * step
        keep = 1 - self._step_rate
        push = np.sqrt(self._step_rate * (1 + keep) * self._mass)
        self._step_path = keep * self._step_path + push * self._inverse @ step
        length = np.linalg.norm(self._step_path) / self._usual
        is_short = length < (1.4 + 2 / (len(step) + 1)) * np.sqrt(1 - keep ** (2 * self.generation))
        self._learn_shape(steps, step, is_short=bool(is_short))
        self.sigma *= float(np.exp(self._step_rate / self._damping * (length - 1)))

    def _learn_shape(self, steps: Floats, step: Floats, *, is_short: bool) -> None:
        """Stretch along the path of the mean, unless it runs away, and along the better steps."""
        spread = self._path_rate * (2 - self._path_rate)
        self._path = (1 - self._path_rate) * self._path + is_short * np.sqrt(spread * self._mass) * step
        one = np.outer(self._path, self._path) + (not is_short) * spread * self.covariance
        many = (steps.T * self._weights) @ steps
        left = 1 - self._one_rate - self._many_rate
        self.covariance = left * self.covariance + self._one_rate * one + self._many_rate * many
