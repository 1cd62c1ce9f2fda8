"""Metadata of the data in Croissant are complete, current and valid."""

from typing import Any

import pandas as pd
import pytest

from docs.pages import croissant
from tests.conftest import ROOT


def test_the_file_is_current() -> None:
    written = croissant.FILE.read_text(encoding="utf-8")
    assert written == croissant.text(), "data have changed: run python -m docs.pages.croissant"


def test_all_statistics_and_results_are_described() -> None:
    paths = {each.path for each in croissant.FILES}
    wanted = [*(ROOT / "docs").glob("*.csv"), *(ROOT / "traces" / "data").glob("*_statistics.json")]
    assert {str(path.relative_to(ROOT)) for path in wanted} <= paths
    for each in croissant.FILES:
        if each.columns:
            assert set(pd.read_csv(ROOT / each.path).columns) <= set(each.columns)


@pytest.fixture(scope="module")
def found() -> Any:
    """Return the metadata as Croissant's own library reads them."""
    library = pytest.importorskip("mlcroissant", reason="optional: pip install mlcroissant")
    return library.Dataset(str(croissant.FILE))


@pytest.mark.filterwarnings("ignore")  # of the library
def test_the_metadata_are_valid(found: Any) -> None:
    issues = found.metadata.issues
    assert issues.errors == set()
    assert [each for each in issues.warnings if "datePublished" not in each] == []


@pytest.mark.filterwarnings("ignore")
def test_records_are_the_rows_of_the_tables(found: Any) -> None:
    for data in croissant.FILES:
        if not data.columns:
            continue
        table, name = pd.read_csv(ROOT / data.path), data.name.removesuffix(".csv")
        records = list(found.records(name))
        assert len(records) == len(table)
        first = records[0][f"{name}/{table.columns[0]}"]
        assert first.decode() == table.iloc[0, 0]
