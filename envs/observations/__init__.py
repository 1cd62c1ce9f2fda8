"""What an agent sees: a module for each kind, with one attribute `observation`.

An observation kind has `space(slots, view)`; `parts(slots, view)`, by which every column has a name
(`envs.observation_spec`); a call `(slots, view, mask)` that returns new arrays; and `shows_running`: whether that reads
the slots of running jobs.
"""
