"""What the two commands share: how they end, and what they show on stderr while the user waits."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from simulator.choice import ChoiceError


def run(name: str, work: Callable[[Sequence[str]], None], args: Sequence[str] | None) -> int:
    """Run a command; return its exit code, 2 if what was asked for cannot be, which one sentence on stderr says.

    An interrupt is told if it says what is left of the run.
    """
    try:
        work(sys.argv[1:] if args is None else args)
    except ChoiceError as error:
        return told(name, error.as_flags, 2)
    except ValueError as error:
        return told(name, str(error), 2)
    except KeyboardInterrupt as stop:
        return told(name, str(stop), 130)
    return 0


def told(name: str, said: str, code: int) -> int:
    """Say on stderr why a command ends, if there is something to say, and return the exit code."""
    if said:
        print(f"{name}: {said}", file=sys.stderr)
    return code


def working(what: str) -> AbstractContextManager[object]:
    """Say on stderr, if that is a terminal, what is being waited for."""
    from rich.console import Console

    return Console(stderr=True).status(what) if sys.stderr.isatty() else nullcontext()


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[..., None]]:
    """Show a bar on stderr, if that is a terminal; give what moves it on by so much and may say where it is."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=total)

        def moved(by: int, now: str | None = None) -> None:
            bar.update(task, advance=by, description=now)

        yield moved
