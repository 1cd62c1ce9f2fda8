"""constraints.txt pins every version that `make` installs, within the bounds of pyproject.toml, for all platforms."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import ROOT

LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
PINNED = {canonicalize_name(name): version for name, version in (line.split("==") for line in LINES)}


@pytest.fixture
def asked() -> list[Requirement]:
    """Return the requirements of the project, with the extras that `make` installs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = (project["optional-dependencies"][name] for name in ("train", "dev"))
    return [Requirement(line) for lines in (project["dependencies"], *extras) for line in lines]


def test_lines_are_names_and_versions_alone() -> None:
    assert [line for line in LINES if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", line)] == []


def test_every_requirement_is_pinned_within_its_bounds(asked: list[Requirement]) -> None:
    outside = [
        str(need) for need in asked if not need.specifier.contains(PINNED[canonicalize_name(need.name)])
    ]
    assert outside == []


def test_platform_specific_packages_are_not_pinned() -> None:
    assert [name for name in PINNED if name.startswith(("nvidia", "cuda", "triton"))] == []
