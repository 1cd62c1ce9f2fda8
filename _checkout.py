"""Make a checkout importable as `gpu_cluster_gym` for the commands that run in it as scripts.

Installed as `pip install -e .` does it, the checkout is importable already. Where only the dependencies are installed,
or another copy of the package is, `.typing/gpu_cluster_gym`, a link to the checkout, goes first on the path.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

from _starting import end_if_interrupted

end_if_interrupted()

HERE = Path(__file__).resolve().parent


def is_importable() -> bool:
    """Return whether `import gpu_cluster_gym` finds this checkout."""
    spec = find_spec("gpu_cluster_gym")
    return bool(spec and spec.origin and Path(spec.origin).resolve() == HERE / "__init__.py")


if not is_importable():
    sys.path.insert(0, str(HERE / ".typing"))
