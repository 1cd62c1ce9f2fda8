"""Runs `benchmarks.measured_errors` from any folder: `python benchmarks/speed_errors.py --data DIR`."""

import sys
from pathlib import Path


def main() -> int:
    """Print the errors; return the exit code."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a script finds only what lies beside it
    from benchmarks import measured_errors

    return measured_errors.main()


if __name__ == "__main__":
    sys.exit(main())
