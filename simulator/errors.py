"""The error of an episode whose jobs never all end."""


class StalledEpisodeError(RuntimeError):
    """Jobs are left that never end: they cannot start, or fail again and again; the message says which, and why."""
