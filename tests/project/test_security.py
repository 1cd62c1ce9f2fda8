"""Each promise of SECURITY.md has a test: a new one, or one whose test is gone, is noticed."""

import re

from tests.conftest import ROOT

OUT_OF_REACH, CHEATS = "simulator/test_out_of_reach", "simulator/test_cheats"
TESTS = {
    "Choices": "commands/test_evaluate::test_a_file_of_choices_names_no_code",
    "Agents": "agents/test_agent_folder::test_nothing_in_the_folder_is_executed",
    "Traces": "traces/test_traces::test_cells_that_a_spreadsheet_would_run_are_counted",
    "Reports": "evaluation/test_html_report::test_names_do_not_break_the_page",
    "Journals": "commands/test_results_as_they_come::test_a_journal_unpickles_nothing",
    "Compiled code": "simulator/test_kernel_cache::test_a_temporary_folder_that_others_can_write_to_is_refused",
    "read beyond the end": f"{OUT_OF_REACH}::test_memory_around_what_is_shown_holds_nothing_hidden",
    "write into an array of the view": f"{OUT_OF_REACH}::test_what_is_written_through_the_view_changes_nothing",
    "call `view.next_move`": f"{OUT_OF_REACH}::test_no_ranking_gets_the_truth_by_what_it_says",
    "pass numbers": "simulator/test_plain_actions::test_what_is_checked_is_carried_out",
    "create windows": f"{OUT_OF_REACH}::test_jobs_are_not_made_while_a_policy_is_asked",
    "write into the jobs": f"{OUT_OF_REACH}::test_a_result_is_refused_if_what_must_stay_has_changed",
    "make jobs complete faster": f"{CHEATS}::test_a_completion_faster_than_physics_allows_ends_the_run",
    "act on information about the future": "evaluation/test_audit::test_a_planted_leak_is_found",
}
"""The test of each promise, by the beginning of its line."""


def promises() -> list[str]:
    """Return the kinds of files that are safe, and the attempts of policies that fail."""
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    files = re.findall(r"^- \*\*(.+?)\*\*", page, re.MULTILINE)
    attempts = re.findall(r"^\| ([^|]+?) \|", page, re.MULTILINE)
    return [*files, *attempts[1:]]


def test_every_promise_has_a_test() -> None:
    found = promises()
    assert len(found) == len(TESTS)
    assert all(promise.startswith(name) for promise, name in zip(found, TESTS, strict=True))


def test_every_test_of_a_promise_exists() -> None:
    for name in TESTS.values():
        file, _, test = name.partition("::")
        assert f"\ndef {test}(" in (ROOT / "tests" / f"{file}.py").read_text(encoding="utf-8"), name
