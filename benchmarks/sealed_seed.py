"""Seed of the benchmark's sealed windows for a release: `python -m benchmarks.sealed_seed v0.3.0`.

The seed is a part of the SHA-256 of the version and the commit of its tag. The commit contains all that was submitted
before, so nobody can have tuned on these windows, and anybody can compute the seed from then on.
"""

import argparse
import hashlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HEX_DIGITS = 8
"""Digits of the SHA-256 that are the seed: up to ten decimal digits."""


def sealed_seed(tag: str, commit: str) -> int:
    """Return the seed of a release. tag: such as v0.3.0. commit: the 40 hexadecimal digits of the tagged commit."""
    return int(hashlib.sha256(f"gpu-cluster-gym {tag} {commit}".encode()).hexdigest()[:HEX_DIGITS], 16)


def commit_of(tag: str, checkout: Path) -> str:
    """Return the commit of a tag in a checkout; ValueError if the checkout lacks the tag."""
    asked = ["git", "rev-parse", "--verify", "--quiet", f"refs/tags/{tag}^{{commit}}"]
    found = subprocess.run(asked, cwd=checkout, capture_output=True, text=True, check=False)
    if found.returncode:
        raise ValueError(f"{checkout} has no tag {tag}: name a published release, and run git fetch --tags")
    return found.stdout.strip()


def main(args: Sequence[str] | None = None) -> int:
    """Print the seed of a release."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tag", help="tag of the release, such as v0.3.0")
    parser.add_argument(
        "--checkout", type=Path, default=Path(), help="checkout that has the tag; default: this folder"
    )
    chosen = parser.parse_args(args)
    try:
        print(sealed_seed(chosen.tag, commit_of(chosen.tag, chosen.checkout)))
    except ValueError as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
