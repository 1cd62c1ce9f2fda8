"""Error of an episode in which some job never ends."""


class StalledEpisodeError(RuntimeError):
    """Some jobs never end, since they cannot start or fail again and again; the message names them and the reason."""
