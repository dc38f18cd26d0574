"""The commit of a work tree is read as text: nothing that a `.git` folder names is run or waited for."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from motionkit.runs import Run
from motionkit.runs._record import commit_of

HASH = "0123456789abcdef0123456789abcdef01234567"

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *arguments: str) -> str:
    settings = {
        "user.name": "a",
        "user.email": "a@example.org",
        "init.defaultBranch": "main",
        "commit.gpgSign": "false",
    }
    given = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    command = ["git", "-C", str(folder), *given, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def make(folder: Path) -> Path:
    """Make a work tree with one file and one commit."""
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "code.py").write_text(f"{folder}\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    return folder


@needs_git
def test_it_is_what_git_says(tmp_path: Path) -> None:
    tree = make(tmp_path / "tree")
    (tree / "deep" / "er").mkdir(parents=True)
    said = git(tree, "rev-parse", "HEAD")
    assert commit_of(tree) == commit_of(tree / "deep" / "er") == said
    git(tree, "pack-refs", "--all")
    assert not (tree / ".git/refs/heads/main").exists()
    assert commit_of(tree) == said
    git(tree, "worktree", "add", "-q", "-b", "side/branch", str(tmp_path / "other"))
    git(tmp_path / "other", "commit", "-q", "--allow-empty", "-m", "two")
    two = git(tmp_path / "other", "rev-parse", "HEAD")
    assert commit_of(tmp_path / "other") == two != said
    git(tree, "checkout", "-q", "--detach", two)
    assert commit_of(tree) == two


@needs_git
def test_it_is_what_git_says_of_a_submodule(tmp_path: Path) -> None:
    inner, outer = make(tmp_path / "inner"), make(tmp_path / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "part")
    assert (outer / "part/.git").is_file()
    assert commit_of(outer / "part") == git(inner, "rev-parse", "HEAD") != commit_of(outer)


@needs_git
@pytest.mark.skipif(os.name != "posix", reason="the hook is a shell script")
def test_a_run_started_in_a_foreign_work_tree_runs_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, mark = make(tmp_path / "tree"), tmp_path / "ran"
    (tree / "hook").write_text(f"#!/bin/sh\necho x >> {mark}\ncat\n")
    (tree / "hook").chmod(0o755)
    (tree / ".gitattributes").write_text("* filter=x diff=x\n")
    commit = git(tree, "rev-parse", "HEAD")
    with (tree / ".git/config").open("a") as file:
        file.write(
            "[core]\n fsmonitor = ./hook\n sshCommand = ./hook\n pager = ./hook\n hooksPath = .\n askPass = ./hook\n"
            '[filter "x"]\n clean = ./hook\n smudge = ./hook\n[diff "x"]\n command = ./hook\n'
            "[alias]\n status = !./hook\n rev-parse = !./hook\n"
            '[extensions]\n partialClone = x\n[remote "x"]\n promisor = true\n url = .\n uploadpack = ./hook\n'
        )
    (tree / "code.py").write_text("2\n")
    # git itself does run them, so that this test can fail.
    subprocess.run(["git", "-C", str(tree), "status"], capture_output=True, check=False)
    assert mark.exists()
    mark.unlink()
    monkeypatch.chdir(tree)
    with Run.create("grpo", {}, out=tmp_path / "run") as run:
        pass
    assert not mark.exists()
    assert f'"commit": "{commit}"' in (run.directory / "run.json").read_text()


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (HASH, HASH),
        (HASH + "\n", HASH),
        ("ref: refs/heads/main", HASH),
        ("ref: refs/heads/nowhere", None),
        ("ref: refs/../../secret", None),
        ("ref: ../secret", None),
        ("ref: refs/heads/main\0", None),
        ("ref: refs/heads/.*", None),
        (HASH[:-1] + "g", None),
        ("", None),
        ("x" * 100_000, None),
        ("\x1b[2J", None),
    ],
)
def test_only_a_hash_comes_out(head: str, expected: str | None, tmp_path: Path) -> None:
    (tmp_path / ".git/refs/heads").mkdir(parents=True)
    (tmp_path / ".git/refs/heads/main").write_text(HASH + "\n")
    (tmp_path / ".git/packed-refs").write_text(f"# pack-refs\n{HASH} refs/heads/other\n")
    (tmp_path / "secret").write_text(HASH)
    (tmp_path / ".git/HEAD").write_text(head)
    assert commit_of(tmp_path) == expected


@pytest.mark.parametrize("target", ["nowhere", ".git", "", "a\0b", "/dev/zero", "x" * 5000])
def test_a_git_file_that_leads_nowhere_is_no_commit(target: str, tmp_path: Path) -> None:
    (tmp_path / ".git").write_text(f"gitdir: {target}\n")
    assert commit_of(tmp_path) is None


def test_outside_of_a_work_tree_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Run.create("grpo", {}, out=tmp_path / "run") as run:
        pass
    assert '"git"' not in (run.directory / "run.json").read_text()
