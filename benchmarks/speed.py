"""Runs `benchmarks.speed_table` from any folder: `python benchmarks/speed.py [--quick] [--rows NAME,...]`."""

import sys
from collections.abc import Sequence
from pathlib import Path


def main(args: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a script finds only what lies beside it
    from benchmarks import speed_table

    return speed_table.main(args)


if __name__ == "__main__":
    sys.exit(main())
