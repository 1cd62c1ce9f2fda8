"""Runs `benchmarks.fitted_batches` from any folder: `python benchmarks/philly_batches.py [--file FILE [--write]]`."""

import sys
from pathlib import Path


def main() -> None:
    """Print the block and the parameters that fit it."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a script finds only what lies beside it
    from benchmarks import fitted_batches

    fitted_batches.main()


if __name__ == "__main__":
    main()
