"""The cluster: machines, jobs, the queue and time; how fast jobs run, what is legal, and what happens next."""
