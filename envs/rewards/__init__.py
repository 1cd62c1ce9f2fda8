"""Rewards: a module for each, with one function `reward`.

Its parameters name the quantities that it needs of a step, each a float64 array over the environments:

- `job_seconds`: integral of the number of jobs present during the step.
- `gain`: the same integral in the run of the reference policy, minus `job_seconds`; the rest of that run counts in the
  last step.
- `advantage`: discounted job-seconds by which the action beats the reference policy's own choice, in simulated futures;
  not available for every action.
- `regret`: increase in the step of the least job-seconds that the jobs present before it can cost in all; see the
  module `regret`.
- `slowdown_regret`: the same, with the seconds of a job multiplied by 100 s / (its run time alone, at least 10 s): they
  add up to its slowdown times 100 s.
- `slowdown`: integral of the sum of 1 / (run time alone, at least 10 s) over the jobs present, divided by the number of
  jobs: it adds up to their mean slowdown.

All but the slowdown are in units of `info["scale"]` job-seconds. The function returns the rewards, float64 (N,).
"""
