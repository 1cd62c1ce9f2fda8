"""Shortest job first: by estimated run time, nobody is paused.

General knowledge. What selective preemption must beat where pauses are dear.
"""

from simulator.policy import Ranking

policy = Ranking("estimate")
