"""Schedulers that act in rounds: other shapes (AITurbo, Optimus), turns on kinds of GPUs (Gavel), groups (Muri)."""
