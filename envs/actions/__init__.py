"""What an agent can do: a module for each kind, with one attribute `action`.

An action kind has `space(slots)`, of type `Legal`; `mask(slots)`, int8, 1 where legal, never all 0; `wait(slots)`,
the number of the action that lets time pass; and `apply(number, slots, episode)`, which carries out any other.
"""

from envs.actions._legal import Legal

__all__ = ["Legal"]
