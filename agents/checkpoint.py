"""Checkpoints: a folder with `agent.json` (options), `weights.safetensors` and digests of both.

Reading one runs no code from it and opens no file outside it: options that name files keep only their names.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load as read_tensors
from safetensors.torch import save as tensor_bytes

from gpu_cluster_gym.agents import integrity
from gpu_cluster_gym.agents.networks import Listed, MoveNetwork, SteerNetwork, flat
from gpu_cluster_gym.agents.set_network import READ, SamplingAgent, SetNetwork
from gpu_cluster_gym.agents.training import MovesTraining, PlainTraining, SteerTraining, Training, usual
from gpu_cluster_gym.envs.agent_policy import AgentPolicy
from gpu_cluster_gym.evaluation.run_folder import BEST
from gpu_cluster_gym.simulator.choice import changed
from gpu_cluster_gym.simulator.kernel.moves.move_list import FEATURES
from gpu_cluster_gym.simulator.kernel.slots.features import QUEUE_FEATURES, RUNNING_FEATURES, TOTALS
from gpu_cluster_gym.simulator.kernel.union.load import LOAD
from gpu_cluster_gym.simulator.policy import Policy
from gpu_cluster_gym.simulator.rule_policy import Offsets, Rule, Steered, arrivals_per_decision
from gpu_cluster_gym.workloads import FILES, Scenario

CHOICES, WEIGHTS = "agent.json", "weights.safetensors"
C = TypeVar("C", Training, Scenario)
MAX_SLOTS, MAX_HIDDEN = 4096, 4096  # limits on the memory that a hostile file can ask for
MAX_WEIGHT = 1e6  # of a weight's magnitude: four layers of `MAX_HIDDEN` cannot overflow
NAMES = (*FILES, "init_from")
"""Options that may name a file or a folder."""
PLAIN_NAME = re.compile(r"(?!\.{1,2}$)[^/\\\0]+")
LAYOUTS: dict[str, dict[str, object]] = {
    "steer": {"action": "steer", "load": list(LOAD)},
    "moves": {"action": "moves", "features": list(FEATURES), "load": list(LOAD)},
    "plain": {
        "action": "plain",
        "queue_features": [QUEUE_FEATURES[at] for at in READ],
        "running_features": list(RUNNING_FEATURES),
        "totals": list(TOTALS),
    },
}
"""Inputs and outputs of the network of each action kind; one on the rule may read fewer load features."""
Network = SetNetwork | SteerNetwork | MoveNetwork


class Agent(NamedTuple):
    """A network, the options and the scenario of its training, and the rule whose weights or moves it changes."""

    network: Network
    training: Training
    scenario: Scenario
    start: Rule = Rule()


def new_network(training: Training, reads: Sequence[str] = LOAD) -> Network:
    """Return an untrained network. reads: names of the load features, where it acts on the rule."""
    if isinstance(training, SteerTraining):
        return SteerNetwork(len(training.weights), training.hidden, reads)
    if isinstance(training, MovesTraining):
        return MoveNetwork(
            training.hidden,
            base_logit_scale=training.base_logit_scale,
            allowed_moves=training.allowed_moves,
            reads=reads,
        )
    assert isinstance(training, PlainTraining)
    return SetNetwork(training.queue_slots, hidden=training.hidden)


def save(folder: Path, agent: Agent, *, about: Mapping[str, object] | None = None) -> None:
    """Write an agent, atomically: after a crash the folder has the previous agent or this one.

    Of files and folders that its options name, only the last part of the path is kept.

    about: metadata of the weights, such as the step. An agent may only replace one with the same options.
    """
    folder.mkdir(parents=True, exist_ok=True)
    libraries = {name: version(name) for name in ("torch", "stable-baselines3", "numpy")}
    choices = {
        "layout": layout_of(agent),
        "training": _without_paths(asdict(agent.training)),
        "scenario": _without_paths(asdict(agent.scenario)),
        "made_with": libraries,
    }
    noted = {"about": json.dumps(about or {})}  # a single entry: safetensors writes several in random order
    contents = {
        CHOICES: (json.dumps(choices, indent=2) + "\n").encode(),
        WEIGHTS: tensor_bytes(dict(agent.network.state_dict()), metadata=noted),
    }
    integrity.write(folder, contents)


def load(folder: str | Path) -> Agent:
    """Return the agent of a folder; ValueError with the reason where it cannot be read."""
    folder = Path(folder)
    contents = _contents(folder)
    try:
        choices = json.loads(contents[CHOICES].decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{folder / CHOICES}: expected the JSON of an agent ({error}): retrain the agent"
        ) from None
    if not isinstance(choices, dict):
        raise ValueError(f"{folder / CHOICES}: expected a JSON object with the options of an agent")
    layout = _check_layout(folder, choices.get("layout"))
    action: Any = layout["action"]
    training = _read(usual(action), choices.get("training"), folder)
    scenario = _read(Scenario(), choices.get("scenario"), folder)
    slots = training.queue_slots if isinstance(training, PlainTraining) else 1
    if slots > MAX_SLOTS or training.hidden > MAX_HIDDEN:
        raise ValueError(
            f"{folder / CHOICES}: the network is too large: expected hidden <= {MAX_HIDDEN}, queue_slots <= {MAX_SLOTS}"
        )
    reads: Any = layout.get("load", LOAD)
    network = new_network(training, reads)
    try:
        weights = read_tensors(contents[WEIGHTS])
        _check_weights(network, weights)
        network.load_state_dict(weights)
    except (SafetensorError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"{folder / WEIGHTS} does not hold this agent's weights ({error}): copy the agent again, or retrain it"
        ) from None
    return Agent(network.eval(), training, scenario, _start(folder, layout))


def about(folder: str | Path) -> dict[str, Any]:
    """Return the metadata of an agent's weights; ValueError where they cannot be read."""
    file = Path(folder) / WEIGHTS
    _contents(Path(folder))
    try:
        with safe_open(file, "numpy") as tensors:
            noted: dict[str, Any] = json.loads((tensors.metadata() or {}).get("about", "{}"))
    except (OSError, ValueError, SafetensorError) as error:
        raise ValueError(f"{file} cannot be read ({error}): copy the agent again") from None
    return noted


def _contents(folder: Path) -> dict[str, bytes]:
    """Return the files of an agent as they were written; ValueError with the reason where one is not."""
    try:
        contents = integrity.read(folder)
    except (OSError, ValueError) as error:
        why = str(error)
        if isinstance(error, OSError) and error.strerror and error.filename:
            why = f"{Path(error.filename).name}: {error.strerror}"
        if several := sorted(f"{each.parent.name}" for each in folder.glob(f"seed-*/{BEST}")):
            raise ValueError(
                f"{folder} has several agents: name one of its folders {', '.join(several)}"
            ) from None
        found = f"{folder} has no readable agent ({CHOICES}, {WEIGHTS}, {integrity.SUMS}): {why}"
        if not (folder / CHOICES).exists():
            remedy = "; name an agent's folder of train_agent.py, or a module with an AgentPolicy (mylab.agent:policy)"
        elif (folder / WEIGHTS).exists() and not (folder / integrity.SUMS).exists():
            remedy = f"; if you trust its files, run sha256sum {CHOICES} {WEIGHTS} > {integrity.SUMS} in the folder"
        elif not (folder / WEIGHTS).exists():
            remedy = "; copy the agent again"
        else:
            remedy = ""
        raise ValueError(found + remedy) from None
    if lacking := [name for name in (CHOICES, WEIGHTS) if name not in contents]:
        raise ValueError(f"{folder / integrity.SUMS} lacks {lacking[0]}: copy the agent again")
    return contents


def _check_weights(network: Network, weights: Mapping[str, torch.Tensor]) -> None:
    """Raise ValueError for weights of other names, types or shapes than the network's, or values beyond bounds."""
    wanted = network.state_dict()
    if weights.keys() != wanted.keys():
        raise ValueError(f"expected {', '.join(wanted)}, not {', '.join(weights)}")
    for name, own in wanted.items():
        found = weights[name]
        if (found.dtype, found.shape) != (own.dtype, own.shape):
            given = f"{found.dtype} {tuple(found.shape)}"
            raise ValueError(f"{name}: expected {own.dtype} {tuple(own.shape)}, not {given}")
        if not bool((found.abs() <= MAX_WEIGHT).all()):  # also False for NaN
            raise ValueError(f"{name}: expected finite values of at most {MAX_WEIGHT:g} in magnitude")


def _without_paths(options: dict[str, Any]) -> dict[str, Any]:
    """Return options in which files and folders have only the last part of their path."""
    kept = {name: Path(options[name]).name for name in NAMES if options.get(name)}
    return options | kept


def layout_of(agent: Agent) -> dict[str, object]:
    """Return the inputs and outputs of an agent's network, and the rule it starts from."""
    layout = LAYOUTS[agent.training.action]
    if isinstance(agent.network, SetNetwork):
        return layout
    return layout | {"load": [LOAD[at] for at in agent.network.reads], "start": asdict(agent.start)}


def _start(folder: Path, layout: Mapping[str, Any]) -> Rule:
    """Return the rule whose weights or moves an agent changes; ValueError for an invalid one."""
    if layout["action"] == "plain":
        return Rule()
    try:
        return Rule(**layout["start"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{folder / CHOICES}: invalid start rule: {error}") from None


def _check_layout(folder: Path, layout: object) -> dict[str, object]:
    """Return the layout of an agent; ValueError where its network has other inputs or outputs than the environment."""
    known = layout if isinstance(layout, dict) else {}
    action: Any = known.get("action")
    wanted = LAYOUTS.get(action) if isinstance(action, str) else None
    if wanted is None:
        raise ValueError(f"{folder / CHOICES}: action {action!r}: expected {', '.join(LAYOUTS)}")
    reads = known.get("load")
    fewer = isinstance(reads, list) and bool(reads) and set(reads) <= set(LOAD)
    if apart := [
        name for name in wanted if known.get(name) != wanted[name] and not (name == "load" and fewer)
    ]:
        raise ValueError(
            f"{folder}: the observation format ({', '.join(apart)}) has changed since the agent was trained: "
            "retrain the agent"
        )
    return known


def _read(usual: C, content: object, folder: Path) -> C:
    """Return options with those of JSON in place of the defaults; ValueError for invalid ones."""
    kind = type(usual).__name__
    if not isinstance(content, dict):
        raise ValueError(f"{folder / CHOICES}: expected an object of {kind}, not {content!r:.200}")
    try:
        for name in NAMES:
            if isinstance(it := content.get(name), str) and not PLAIN_NAME.fullmatch(it):
                raise ValueError(f"{name} {it!r}: expected a name without a folder")
        given = {name: tuple(it) if isinstance(it, list) else it for name, it in content.items()}
        return changed(usual, given)
    except ValueError as error:
        raise ValueError(f"{folder / CHOICES}: invalid {kind}: {error}") from None


# Agents as policies.


def policy_of(agent: Agent) -> Policy:
    """Return an agent as a policy; torch uses one thread, as the network is small.

    It takes its most likely action, but with the action plain a random one, by its probabilities.
    """
    torch.set_num_threads(1)
    training = agent.training
    if isinstance(agent.network, SteerNetwork):
        assert isinstance(training, SteerTraining)
        every = arrivals_per_decision(agent.scenario.jobs, training.decisions_per_window)
        return Steered(Offsets(agent.start, training.weights), every, agent.network.choose)
    if isinstance(agent.network, MoveNetwork):
        assert isinstance(training, MovesTraining)
        predict = BestMove(agent.network, PREDICTED if training.algorithm == "student" else SCORED)
        return AgentPolicy(predict, action="moves", default_weights=asdict(agent.start))
    assert isinstance(training, PlainTraining)
    return SamplingAgent(agent.network, training.in_use().acting())


PREDICTED = "predicted advantage over the rule's own choice"
SCORED = "score over that of the rule's own choice"


class BestMove:
    """The most likely move of a network, and the scores by which it is chosen."""

    def __init__(self, network: MoveNetwork, keys: str) -> None:
        """Take the network, and a description of its scores."""
        self.network, self.keys, self.margin = network, keys, float(network.base_logit_scale)

    def __call__(self, observation: Mapping[str, np.ndarray], mask: np.ndarray) -> int:
        """Return the index of the move; the observation includes the mask."""
        return int(self.network.choose(flat(observation)))

    @torch.no_grad()
    def values(self, observation: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the score of each move, (max_moves,); -inf for those that the network may not choose."""
        seen = Listed.of(flat(observation))
        found: np.ndarray = (
            self.network.scores(seen).masked_fill(~self.network.reach(seen), -math.inf)[0].numpy()
        )
        return found
