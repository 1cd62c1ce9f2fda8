"""Choose among moves: an action is one of those that are worth considering now, with all levers."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from gymnasium.spaces import Box, Dict

from gpu_cluster_gym.envs.actions import Legal
from gpu_cluster_gym.envs.batch import Info
from gpu_cluster_gym.envs.observation_spec import Part, numbered
from gpu_cluster_gym.envs.openings import Opening
from gpu_cluster_gym.envs.rule_batch import LOAD_SPACE, RuleBatch, RuleEnv
from gpu_cluster_gym.envs.task import forgives, why_illegal
from gpu_cluster_gym.envs.validation import either, time_constant, weights, whole_number
from gpu_cluster_gym.simulator.choice import changed
from gpu_cluster_gym.simulator.kernel.moves import move_steps, rollouts
from gpu_cluster_gym.simulator.kernel.moves.move_list import FEATURES, KINDS, MAX_MOVES, list_dtype
from gpu_cluster_gym.simulator.kernel.moves.rollouts import POLICY, RolloutBuffers
from gpu_cluster_gym.simulator.kernel.union.load import LOAD
from gpu_cluster_gym.simulator.look_ahead_policy import LookAhead, as_words, rollout_workspace
from gpu_cluster_gym.simulator.rule_policy import HIGHEST, LOWEST, Offsets

QUEUED, RUNNING = 4, 4  # jobs that are looked at
ALL = -1  # moves of a list
Reward = Literal["gain", "rollout_advantage"]
"""What is paid: what is won in truth against the default run, or in imagined futures against the rule's own choice."""


class Move(NamedTuple):
    """A move of the list, in words."""

    kind: str
    job: int
    gpus: tuple[int, ...]
    victims: tuple[int, ...]


class Choosing(RuleBatch):
    """Environments whose actions are places on a list of moves.

    lists: (N,) records of `simulator.kernel.moves.move_list`.
    """

    def __init__(
        self,
        found: Sequence[Opening],
        count: int,
        *,
        queued: int = QUEUED,
        running: int = RUNNING,
        most: int = MAX_MOVES,
        base: Mapping[str, float] | None = None,
        cores: bool = False,
        illegal: str = "raise",
        reward: str = "gain",
        futures: int = 8,
        tau_s: float | None = 3600.0,
        threads: int = 1,
    ) -> None:
        """Make room for so many environments; see `MovesEnv` for the choices."""
        if not 3 <= whole_number("most", most) <= MAX_MOVES:
            raise ValueError(f"most {most}: expected 3 to {MAX_MOVES}")
        if reward not in get_args(Reward):
            raise ValueError(f"reward {reward!r}: expected one of {', '.join(get_args(Reward))}")
        super().__init__(found, count, threads=threads)
        self._base = Offsets(changed(found[0].rule, weights("base", base)), ())
        self.imagines = reward == "rollout_advantage"
        self._ahead = LookAhead(
            draws=whole_number("futures", futures), tau_s=time_constant("tau_s", tau_s)
        ).options
        self._rooms: list[
            RolloutBuffers
        ] = []  # where futures are imagined, as many as there were threads at once
        self.forgives, self.num_illegal = forgives(illegal), np.zeros(count, np.int64)
        self.lists, self._chosen = np.zeros(count, list_dtype()), np.zeros(count, np.int64)
        counts = whole_number("queued", queued, least=0), whole_number("running", running, least=0), most
        self.most, self._sizes = most, np.array([*counts, either("cores", cores)])
        self.action_space: Legal = Legal(most)
        rows = Box(LOWEST, HIGHEST, (most, len(FEATURES)), np.float32)
        mask = Box(0, 1, (most,), np.int8)
        places = Part(numbered("move", most))
        self.seen_parts = {"moves": Part(FEATURES, most), "load": Part(LOAD), "mask": places}
        self.observation_space = Dict({"moves": rows, "load": LOAD_SPACE, "mask": mask})

    def open(self, e: int, opening: Opening) -> None:
        """Go on to the first choice."""
        self._base.reset(self.memory[e : e + 1])
        self.num_illegal[e] = 0
        self._chosen[e] = -1
        self._step(slice(e, e + 1))

    def step(self, actions: np.ndarray) -> None:
        """Make the moves chosen, and go on; ValueError where one is not on its list."""
        chosen = np.asarray(actions, np.int64)
        wrong = self.more & ((chosen < 0) | (chosen >= self.lists["num"]))
        if wrong.any() and not self.forgives:
            raise ValueError(why_illegal(int(chosen[wrong.argmax()]), self.most))
        self.num_illegal += wrong
        self._chosen[:] = np.where(wrong, 0, chosen)
        won_s = self.imagined(self._chosen) if self.imagines else None
        self.in_parts(self._step)
        if won_s is not None:
            self.gain[:] = won_s[np.arange(self.count), self._chosen] / self.total

    def masks(self) -> np.ndarray:
        """Tell which places of each list hold a move: (N, most), bool."""
        return masks_of(self.lists, self.most)

    def told(self) -> Info:
        """Return the masks, and how many illegal actions were forgiven."""
        told: Info = {"action_mask": self.masks().astype(np.int8)}
        return told | ({"illegal": self.num_illegal.copy()} if self.forgives else {})

    def seen(self) -> Any:
        """Return the moves, the load, and the mask."""
        return shown(self.lists, self.load, self.most)

    def won_s(self, kinds: Sequence[str] = KINDS) -> np.ndarray:
        """Return what each move wins over the rule's own choice: (N, most), job-seconds; 0 where there is none.

        It is the mean over `futures` imagined ones (`simulator.kernel.moves.rollouts`): nothing true is looked at.
        kinds: of the moves to try; others have 0.
        """
        return self.imagined(np.full(self.count, ALL), kinds)

    def imagined(self, places: np.ndarray, kinds: Sequence[str] = KINDS) -> np.ndarray:
        """Return the same, of the move at this place of each list or of all of some kinds; 0 if it is not tried."""
        tried = np.array([kind in kinds for kind in KINDS])

        def work(part: slice) -> None:
            room = self._room()
            for e in range(part.start, part.stop):
                if self.more[e]:
                    states, lists = self.states[e : e + 1], self.lists[e : e + 1]
                    opened = self._opened(room, e)
                    rollouts.evaluate_listed(states, lists, opened, places[e], tried, self._ahead)
            self._rooms.append(room)

        self.in_parts(work)
        found: np.ndarray = self.lists["advantage_sum"] / np.maximum(self.lists["num_futures"], 1)
        return np.where(masks_of(self.lists, MAX_MOVES) & self.more[:, None], found, 0.0)[:, : self.most]

    def _room(self) -> RolloutBuffers:
        """Return room that no other thread has now."""
        try:
            return self._rooms.pop()
        except IndexError:
            return self._new_room()

    def _new_room(self) -> RolloutBuffers:
        """Return room to imagine futures of one environment after another."""
        memory = np.zeros(2, self.memory.dtype)
        return rollout_workspace(self.states[:1], self.jobs[0], memory).buffers

    def _opened(self, room: RolloutBuffers, e: int) -> RolloutBuffers:
        """Return the room with an environment as it is now, and its memory."""
        room.memory_words[POLICY] = as_words(self.memory[e : e + 1])[0]
        return room._replace(now=as_words(self.states[e : e + 1]), jobs_now=as_words(self.jobs[e]))

    def moves(self, e: int) -> list[Move]:
        """Return the moves of an environment, in words."""
        v = self.lists[e]
        return [
            Move(
                KINDS[v["kind"][k]],
                int(v["job"][k]),
                tuple(v["gpus"][k, : v["num_gpus"][k]].tolist()),
                tuple(v["victims"][k, : v["num_victims"][k]].tolist()),
            )
            for k in range(int(v["num"]))
        ]

    def _step(self, which: slice) -> None:
        records = (
            self.states[which],
            self.memory[which],
            self.lists[which],
            self.jobs[which],
            self._chosen[which],
            self._sizes,
        )
        move_steps.step(*records, *self.rows(which))


def masks_of(lists: np.ndarray, most: int) -> np.ndarray:
    """Tell which of the first `most` places of each list hold a move: (N, most), bool."""
    there: np.ndarray = np.arange(most) < lists["num"][:, None]
    return there


def shown(lists: np.ndarray, load: np.ndarray, most: int) -> dict[str, np.ndarray]:
    """Return what is seen of lists of moves and of the load, (N, len(LOAD)), as new arrays."""
    mask = masks_of(lists, most)
    moves = np.clip(lists["features"][:, :most], LOWEST, HIGHEST) * mask[:, :, None]
    return {"moves": moves, "load": np.clip(load, LOWEST, HIGHEST), "mask": mask.astype(np.int8)}


class MovesEnv(RuleEnv):
    """Choose each move from those that are worth considering: all levers, a few moves at a time.

    ## Observation Dict: `moves`, a row of features for each move (`simulator.kernel.moves.move_list.FEATURES` names
    them; the first tells which the rule itself would make); `load`, totals as for `SteerEnv`; `mask`, 1 where there
    is a move. `columns` and `shapes` name them, and `parts(observation)` takes one apart.

    ## Action
    Discrete: a place on the list. Listed are starts of the first `queued` jobs in the rule's order (for each number of
    workers on the cheapest seats and on GPUs of their own, in the place of the cheapest victims, on CPU cores), moves
    and pauses of the `running` jobs that would win most, and to wait, for the next event or a minute. `action_masks()`
    tells how many there are; others raise ValueError, or with `illegal="first_legal"` the first is made and
    `info["illegal"]` counts. CPU jobs follow by the rule, and so do cores and throttles, unless `cores=True`: then to
    divide them as the rule would is a move, and so is a core more or less, or a level of throttling, for each of the
    `running` jobs that are furthest from what they want. A division that is not chosen is not made at that instant.

    ## Reward, start and end
    As for `SteerEnv`. Instants at which there is nothing but to wait are passed over inside. With
    `reward="rollout_advantage"` a step is paid, in the same percent, what the move is believed to win over the rule's
    own choice, of which it is 0: the mean over `futures` imagined ones, in which run times are drawn from what is
    believed, no job arrives, the rule goes on, and job-seconds are discounted by `tau_s`. `won_s()` has it for all.

    ## Arguments
    workload, scenario, split, count, start, illegal, render_mode: as for `GPUClusterEnv` and `SteerEnv`. queued: jobs
    of the queue whose starts are listed. running: running jobs whose moves and pauses are listed. most: moves that a
    list has at most, 3 to 40. base: weights of the rule whose choices are the own ones, and which goes on in imagined
    futures, where they differ from the default rule's, against which a window is paid. cores: whether cores and
    throttles are moves too. reward: `gain` or `rollout_advantage`, which takes milliseconds a step. futures, tau_s: of
    that and of `won_s`; tau_s None discounts nothing.
    """

    batch: Choosing

    kind = Choosing

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a window: the one named in `options`, else a random one."""
        found = super().reset(seed=seed, options=options)
        self.batch.action_space.opening &= self.action_masks()
        return found

    def action_masks(self) -> np.ndarray:
        """Tell which actions are legal now, bool."""
        mask: np.ndarray = self.batch.masks()[0]
        return mask

    def moves(self) -> list[Move]:
        """Return the moves that can be made now, in words, by their numbers."""
        return self.batch.moves(0)

    def won_s(self) -> np.ndarray:
        """Return what each move is believed to win over the rule's own choice, job-seconds (most,); see `Choosing`."""
        found: np.ndarray = self.batch.won_s()[0]
        return found

    @property
    def own_choice(self) -> int:
        """The number of the move that the rule would make."""
        return int(self.batch.lists["own"][0])

    def _info(self) -> dict[str, Any]:
        self.batch.action_space.mask = self.action_masks().astype(np.int8)
        return super()._info()
