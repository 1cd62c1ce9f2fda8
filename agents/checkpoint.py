"""An agent is a folder: `agent.json` with its choices, and `weights.safetensors`. Reading one runs no code from it."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from safetensors import SafetensorError, safe_open
from safetensors.torch import load as read_tensors
from safetensors.torch import save as tensor_bytes

from gpu_cluster_gym.agents.move_network import MoveNetwork
from gpu_cluster_gym.agents.slot_network import SlotNetwork
from gpu_cluster_gym.agents.steer_network import SteerNetwork
from gpu_cluster_gym.agents.training import MOVE_KINDS, Training, usual
from gpu_cluster_gym.evaluation.run_folder import BEST
from gpu_cluster_gym.simulator import old_names
from gpu_cluster_gym.simulator.choice import changed
from gpu_cluster_gym.simulator.kernel.moves.move_list import FEATURES
from gpu_cluster_gym.simulator.kernel.rule.load import LOAD
from gpu_cluster_gym.simulator.kernel.slots.features import QUEUE_FEATURES, TOTALS
from gpu_cluster_gym.simulator.rule import Rule
from gpu_cluster_gym.workloads import Scenario

CHOICES, WEIGHTS = "agent.json", "weights.safetensors"
FORMAT = 1
C = TypeVar("C", Training, Scenario)
MOST_SLOTS, MOST_HIDDEN = 4096, 4096  # a file that asks for more would only fill the memory
LAYOUTS: dict[str, dict[str, object]] = {
    "steer": {"action": "steer", "load": list(LOAD)},
    "moves": {"action": "moves", "features": list(FEATURES), "load": list(LOAD)},
    "plain": {"action": "plain", "queue_features": list(QUEUE_FEATURES), "totals": list(TOTALS)},
}
"""What the network of each action reads and answers; one on the rule over moves may read less of the load."""
Network = SlotNetwork | SteerNetwork | MoveNetwork
ON_THE_RULE = SteerNetwork | MoveNetwork
FORMER_START = Rule(
    exponent=0.5,
    price=4.0,
    shared_price=0.0,
    harm=1.0,
    most_busy=2.0,
    caution=0.25,
    backlog=0.0,
    contenders=1.0,
    widening=0.0,
    trust_cores=0.0,
    trust_times=0.0,
)
"""Where agents begin that steer and do not say so: the rule with the default weights of then."""
BEFORE = {"widening": 0.0, "trust_cores": 0.0, "trust_times": 0.0}
"""Weights that an agent of before may not name, as they were then in effect."""


class Agent(NamedTuple):
    """A network with the choices under which it was made, and the rule whose weights or choices it changes."""

    network: Network
    training: Training
    scenario: Scenario
    start: Rule = Rule()


def new_network(training: Training, reads: Sequence[str] = LOAD) -> Network:
    """Return a network that has learned nothing; reads: what one on the rule reads of the load."""
    if training.action == "steer":
        return SteerNetwork(len(training.weights), training.hidden, reads)
    if training.action == "moves":
        return MoveNetwork(
            training.hidden, base_scale=training.base_scale, instead=training.instead, reads=reads
        )
    return SlotNetwork(training.queue_slots, hidden=training.hidden, base_scale=training.base_scale)


def save(folder: Path, agent: Agent, *, about: Mapping[str, object] | None = None) -> None:
    """Write an agent so that the folder holds, whatever happens, the one before or this one.

    about: what to note beside the weights, such as the step. An agent may only replace one of the same choices.
    """
    folder.mkdir(parents=True, exist_ok=True)
    libraries = {name: version(name) for name in ("torch", "stable-baselines3", "numpy")}
    choices = {
        "format": FORMAT,
        "layout": layout_of(agent),
        "training": asdict(agent.training),
        "scenario": asdict(agent.scenario),
        "made_with": libraries,
    }
    text = (json.dumps(choices, indent=2) + "\n").encode()
    if not (folder / CHOICES).exists() or (folder / CHOICES).read_bytes() != text:
        _write_whole(folder / CHOICES, text)
    noted = {"about": json.dumps(about or {})}  # one entry: several come in an order of their own each time
    _write_whole(folder / WEIGHTS, tensor_bytes(dict(agent.network.state_dict()), metadata=noted))


def load(folder: str | Path) -> Agent:
    """Return the agent of a folder; ValueError says why it cannot be read."""
    folder = Path(folder)
    try:
        choices = json.loads((folder / CHOICES).read_text(encoding="utf-8"))
        weights = (folder / WEIGHTS).read_bytes()
    except (OSError, ValueError, RecursionError) as error:
        if several := sorted(f"{each.parent.name}" for each in folder.glob(f"seed-*/{BEST}")):
            raise ValueError(
                f"{folder} holds several agents, {', '.join(several)}: name one of them"
            ) from None
        raise ValueError(
            f"{folder} holds no agent that can be read ({CHOICES}, {WEIGHTS}): {error}"
        ) from None
    if not isinstance(choices, dict) or choices.get("format") != FORMAT:
        raise ValueError(f"{folder / CHOICES}: expected the choices of an agent, format {FORMAT}")
    layout = _check_layout(folder, choices.get("layout"))
    action: Any = layout["action"]
    unlimited = replace(usual(action), instead=MOVE_KINDS)  # as one was that does not say so
    training = _read(unlimited, choices.get("training"), folder)
    scenario = _read(Scenario(), choices.get("scenario"), folder)
    if not (0 < training.queue_slots <= MOST_SLOTS and 0 < training.hidden <= MOST_HIDDEN):
        raise ValueError(f"{folder / CHOICES}: a network of absurd size")
    reads: Any = layout.get("load", LOAD)
    network = new_network(training, reads)
    try:
        network.load_state_dict(read_tensors(weights))
    except (SafetensorError, RuntimeError) as error:
        raise ValueError(f"{folder / WEIGHTS} does not hold this agent's weights: {error}") from None
    return Agent(network.eval(), training, scenario, _start(folder, layout))


def about(folder: str | Path) -> dict[str, Any]:
    """Return what was noted beside an agent's weights; ValueError where there is none that can be read."""
    file = Path(folder) / WEIGHTS
    try:
        with safe_open(file, "numpy") as tensors:
            noted: dict[str, Any] = json.loads((tensors.metadata() or {}).get("about", "{}"))
    except (OSError, ValueError, SafetensorError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from None
    return noted


def layout_of(agent: Agent) -> dict[str, object]:
    """Return what an agent's network reads and answers."""
    layout = LAYOUTS[agent.training.action]
    if isinstance(agent.network, ON_THE_RULE):
        reads = [LOAD[place] for place in agent.network.reads]
        return layout | {"load": reads, "start": asdict(agent.start)}
    return layout


def _start(folder: Path, layout: Mapping[str, Any]) -> Rule:
    """Return the rule whose weights or choices an agent changes; ValueError where that is none."""
    if layout["action"] == "plain":
        return Rule()
    try:
        return Rule(**BEFORE | layout["start"]) if "start" in layout else FORMER_START
    except (TypeError, ValueError) as error:
        raise ValueError(f"{folder / CHOICES}: the rule with which it begins: {error}") from None


def _check_layout(folder: Path, layout: object) -> dict[str, object]:
    """Return the layout of an agent; ValueError where its network reads or answers other things than there are."""
    known = layout if isinstance(layout, dict) else {}
    action: Any = known.get("action")
    wanted = LAYOUTS.get(action) if isinstance(action, str) else None
    if wanted is None:
        raise ValueError(
            f"{folder / CHOICES}: expected an agent that can {' or '.join(LAYOUTS)}, not {action!r}"
        )
    reads = known.get("load")
    fewer = isinstance(reads, list) and bool(reads) and set(reads) <= set(LOAD)
    if apart := [
        name for name in wanted if known.get(name) != wanted[name] and not (name == "load" and fewer)
    ]:
        raise ValueError(
            f"{folder}: this agent was trained with other {', '.join(apart)} than the environment has now, "
            "so its network cannot read what it would see: train it anew"
        )
    return known


def _read(usual: C, content: object, folder: Path) -> C:
    """Return choices with those of JSON in their place, by their names of now; what cannot be is refused."""
    kind = type(usual).__name__
    if not isinstance(content, dict):
        raise ValueError(f"{folder / CHOICES}: these are not the choices of a {kind}: {content!r:.200}")
    try:
        given = old_names.current(content)
        return changed(usual, {name: tuple(it) if isinstance(it, list) else it for name, it in given.items()})
    except ValueError as error:
        raise ValueError(f"{folder / CHOICES}: these are not the choices of a {kind}: {error}") from None


def _write_whole(file: Path, content: bytes) -> None:
    """Write a file whole or not at all, and onto the disk before it can be seen."""
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    with partial.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    partial.replace(file)
