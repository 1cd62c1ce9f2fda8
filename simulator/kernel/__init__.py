"""The compiled simulator: jobs and state as arrays, the loops, and all physics."""
