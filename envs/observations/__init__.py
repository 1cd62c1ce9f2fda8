"""What an agent sees: a module for each kind, with one attribute `observation`.

An observation kind has `space(slots, view)` and a call `(slots, view, mask)` that returns new arrays.
"""
