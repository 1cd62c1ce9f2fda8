"""Results of kernel functions run without the compiler."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def with_the_compiler_off(function: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a module's function without the compiler; arguments and result pass through JSON."""
    code = (
        f"import json, sys, numba; from {function.__module__} import {function.__qualname__} as asked;"
        "assert numba.config.DISABLE_JIT; print(json.dumps(asked(*json.loads(sys.argv[1]))))"
    )
    off = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-c", code, json.dumps(args)]
    done = subprocess.run(command, cwd=ROOT, env=off, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])
