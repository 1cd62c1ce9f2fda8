"""What an agent sees: a module for each kind, with one attribute `observation`.

An observation kind has `space(slots, episode)` and a call `(slots, episode, mask)` that returns new arrays.
"""
