"""CPU cores divided among running jobs, and CPU jobs throttled, as CODA does it."""
