"""Agents that come with the project, one for a workload and one for all others; each has a card beside its weights."""

from pathlib import Path
from typing import NamedTuple

SHIPPED = Path(__file__).parent / "shipped"
FOR_ALL = "all"
CARD = "card.md"


class Shipped(NamedTuple):
    """A shipped agent: its folder, and a sentence that says which it is."""

    folder: Path
    told: str


def shipped() -> list[str]:
    """Return the names of the workloads that have an agent of their own, `all` among them where there is that."""
    return sorted(card.parent.name for card in SHIPPED.glob(f"*/{CARD}"))


def shipped_for(workload: str | None) -> Shipped:
    """Return the agent for a workload, or the one for all where there is none, or for None: jobs of one's own.

    ValueError where there is neither.
    """
    names = shipped()
    if workload in names:
        return Shipped(
            SHIPPED / str(workload), f"ppo: the agent trained on {workload}; {told(str(workload))}."
        )
    if FOR_ALL not in names:
        raise ValueError(
            f"no agent comes with the project for {workload or 'jobs of your own'}: there are those of "
            f"{', '.join(names) or 'no workload'}; python train_agent.py trains one"
        )
    why = f"there is none of {workload}'s own" if workload else "this scenario is none of the workloads"
    return Shipped(
        SHIPPED / FOR_ALL, f"ppo: the agent trained on several workloads, since {why}; {told(FOR_ALL)}."
    )


def told(name: str) -> str:
    """Return where to read about an agent."""
    return f"see agents/{SHIPPED.name}/{name}/{CARD}"
