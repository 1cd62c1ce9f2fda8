"""Compiled simulator: job and state arrays, event loops, and all physics.

    cluster/     machines, jobs, queues and time: speed under sharing, legality of actions, events
    rankings/    policies that order jobs: scheduling passes, backfilling, cost-aware preemption
    cores/       CPU-core allocation among running jobs, throttling of CPU jobs
    union/       the policy `union`: all levers, by weights
    slots/       jobs in fixed slots, for agents that pick one
    rounds/      round-based policies: elastic shapes, time sharing by GPU type, priority groups
    moves/       candidate moves of all kinds, for agents and for look-ahead

Packages import only from packages listed above them.

Reading path:

    cluster/layout.py       fields of a job and of an episode's state record
    cluster/events.py       the clock: what happens at an instant, and in which order
    cluster/outages.py      when nodes fail and drain
    cluster/progress.py     when a running job finishes, grows or changes level
    cluster/speed.py        how fast a job runs, given its GPUs, cores and co-located jobs
    cluster/pausing.py      what a preemption costs
    cluster/holding.py      how jobs acquire and release GPUs, and run out of memory
    cluster/placement.py    which GPUs a placement rule chooses
    cluster/tenants.py      what tenants hold, and whether a quota lets a job start
    rankings/rankings.py    a scheduling pass of a ranking

`initial_state.py` creates the record, `calls.py` holds the functions that Python calls, and `account.py`
records an episode.
"""
