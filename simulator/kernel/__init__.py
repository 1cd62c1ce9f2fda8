"""The compiled simulator: jobs and state as arrays, the loops, and all physics.

    cluster/     machines, jobs, the queue and time: how fast jobs run, what is legal, what happens next
    rankings/    schedulers that are an order of jobs, carried out in passes, with preemption that pays
    cores/       CPU cores divided among running jobs, CPU jobs throttled
    union/       the rule `union`: all levers, by weights
    slots/       jobs in slots, for agents that pick one
    rounds/      schedulers that act in rounds: other shapes, turns on kinds of GPUs, groups that share
    moves/       candidate moves of `union`, for agents and for look-ahead

Each room may import those that stand before it. `cluster/layout.py` has the job's and the record's fields: begin there.
`initial_state.py` makes a record, `calls.py` is what Python may call on it, `account.py` takes down what happens.
"""
