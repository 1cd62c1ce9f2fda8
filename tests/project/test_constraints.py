"""Versions that `make` installs are pinned within the bounds of pyproject.toml, and locked by hash for all systems."""

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


LOCKS = sorted(path.name for path in (ROOT / "requirements").glob("*.txt"))


def locked(name: str) -> dict[str, list[str]]:
    """Return the hashes of each requirement, `name==version`, of a lock file."""
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8").replace("\\\n", " ")
    return {line.split()[0]: re.findall(r"--hash=(\S+)", line) for line in text.splitlines() if line}


@pytest.mark.parametrize("name", LOCKS)
def test_what_is_locked_has_its_hashes_and_no_address(name: str) -> None:
    wrong = [
        need
        for need, hashes in locked(name).items()
        if not re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", need)
        or not hashes
        or not all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes)
    ]
    assert wrong == []
    assert "://" not in (ROOT / "requirements" / name).read_text(encoding="utf-8")


def test_all_pins_but_that_of_torch_are_locked() -> None:
    versions = {
        canonicalize_name(name): pin for name, pin in (need.split("==") for need in locked("docs.txt"))
    }
    assert {name: version for name, version in PINNED.items() if versions.get(name) != version} == {
        "torch": PINNED[canonicalize_name("torch")]
    }


def test_the_tests_are_installed_with_the_versions_of_the_docs() -> None:
    assert locked("develop.txt").items() <= locked("docs.txt").items()


def test_the_licence_of_each_requirement_is_listed(asked: list[Requirement]) -> None:
    table = (ROOT / "THIRD_PARTY.md").read_text(encoding="utf-8")
    listed = {canonicalize_name(name) for name in re.findall(r"^\| (\S+) \| .*\w", table, re.MULTILINE)}
    assert {canonicalize_name(need.name) for need in asked} - listed == set()
