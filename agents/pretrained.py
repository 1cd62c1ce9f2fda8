"""Pretrained agents: each folder has a card and the weights.

There is one for each of some workloads, a general one, and one of `--action plain`, trained from random weights.
"""

from pathlib import Path
from typing import NamedTuple

SHIPPED = Path(__file__).parent / "shipped"
FOR_ALL, PLAIN = "all", "plain"
CARD = "card.md"


class Shipped(NamedTuple):
    """A pretrained agent: its folder, and its description as a sentence."""

    folder: Path
    description: str


def shipped() -> list[str]:
    """Return the names of the pretrained agents: workloads, `all` for the general one, and `plain`."""
    return sorted(card.parent.name for card in SHIPPED.glob(f"*/{CARD}"))


def shipped_for(workload: str | None) -> Shipped:
    """Return the pretrained agent for a workload, or the general one for another workload or None (a custom scenario).

    Raise ValueError where neither exists.
    """
    names = shipped()
    if workload in names:
        name, kind = str(workload), f"the agent trained on {workload}"
    elif FOR_ALL in names:
        why = f"{workload} has no agent of its own" if workload else "this scenario is not a named workload"
        name, kind = FOR_ALL, f"the general agent, since {why}"
    else:
        raise ValueError(
            f"no pretrained agent for {workload or 'a custom scenario'}: expected {', '.join(names) or 'none'}; train "
            "one with python train_agent.py"
        )
    return Shipped(SHIPPED / name, f"ppo: {kind}; see agents/{SHIPPED.name}/{name}/{CARD}.")


def shipped_plain() -> Shipped:
    """Return the pretrained agent of `--action plain`."""
    folder = SHIPPED / PLAIN
    return Shipped(folder, f"plain: trained from random weights; see agents/{SHIPPED.name}/{PLAIN}/{CARD}.")
