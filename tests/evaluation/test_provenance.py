"""The commit of a run says whether the checkout differs from it, also by a policy that is not committed."""

import subprocess
from pathlib import Path

import pytest

from gpu_cluster_gym.evaluation import provenance


def test_changes_and_new_modules_mark_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        done = subprocess.run(
            ["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines" / "one.py").write_text("1\n", encoding="utf-8")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    monkeypatch.setattr(provenance, "ROOT", tmp_path.resolve())
    clean = git("rev-parse", "HEAD")
    assert provenance.commit() == clean
    (tmp_path / "notes.txt").write_text("no code\n", encoding="utf-8")
    (tmp_path / "baselines" / "note.json").write_text("{}\n", encoding="utf-8")
    assert provenance.commit() == clean
    (tmp_path / "baselines" / "two.py").write_text("2\n", encoding="utf-8")
    assert provenance.commit() == f"{clean} with changes"
    (tmp_path / "baselines" / "two.py").unlink()
    (tmp_path / "baselines" / "one.py").write_text("3\n", encoding="utf-8")
    assert provenance.commit() == f"{clean} with changes"
