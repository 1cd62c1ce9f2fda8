"""What an agent can do: a module for each kind, with one attribute `action`.

An action kind has `space(slots, view)`, of type `Legal`; `mask(slots, view)`, int8, 1 where legal, never all 0;
`wait(slots, view)`, the number of the first action that lets time pass, all that come before it being moves; `waits`,
for how many seconds those that wait do so, None for till the next event; `moves(number, slots, view)`, what a policy
does in the place of one of the others, in order: nothing where a start is only put together. `apply(number, slots,
episode)` carries that out; one that the kernel steps has a `stepper` instead, which makes a `Stepper`.
"""

from gpu_cluster_gym.envs.actions._legal import Legal
from gpu_cluster_gym.envs.actions._steppers import PickStepper, PrimitiveStepper, Stepper

__all__ = ["Legal", "PickStepper", "PrimitiveStepper", "Stepper"]
