"""The documentation: code of its pages runs as it stands, the site is built without a complaint."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from browser import CHROMIUM, Browser

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def ran(page, folder, monkeypatch):
    """The names after all Python blocks of a page, run one after the other."""
    monkeypatch.chdir(folder)
    text = (DOCS / page).read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, page, "exec"), names)
    return names


def test_the_tutorial(tmp_path, monkeypatch):
    names = ran("tutorial.md", tmp_path, monkeypatch)
    assert names["result"].success and names["short"].status == "event"
    # a lever that follows a pin on a circle of 0.1 m, 0.4 m away
    assert abs(names["swing"] - 2 * np.arcsin(0.1 / 0.4)) < 1e-3
    assert (tmp_path / "shaper.html").exists()


@pytest.mark.parametrize("page", ["index.md", "coming-from.md"])
def test_other_pages_with_code(page, tmp_path, monkeypatch):
    assert ran(page, tmp_path, monkeypatch)["result"].success


@pytest.mark.slow
def test_the_page_on_flexible_bodies(tmp_path, monkeypatch):
    names = ran("flexible.md", tmp_path, monkeypatch)
    assert names["rest"]["blade.end"].position[2] < -0.01 and names["result"].success


@pytest.mark.parametrize("page", ["theory/algebraic.md", "theory/feedback.md"])
def test_pages_of_the_theory(page, tmp_path, monkeypatch):
    assert ran(page, tmp_path, monkeypatch)["result"].success


def test_the_code_of_every_page_is_run_by_some_test():
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("*.py"))
    pages = [path for path in DOCS.rglob("*.md") if path.name != "gallery.md"]  # of its examples
    with_code = [x for x in pages if "```python" in x.read_text(encoding="utf-8")]
    names = [path.relative_to(DOCS).as_posix() for path in with_code]
    assert len(names) > 12
    assert [name for name in names if f'"{name}"' not in tests] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built strictly."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    folder = tmp_path_factory.mktemp("built") / "site"
    made = subprocess.run(
        [*command, "--site-dir", str(folder)], cwd=ROOT, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return folder


@pytest.mark.slow
def test_the_site_is_built_without_a_complaint(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:  # nothing is fetched from outside
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r"<(?:script|img|iframe)[^>]*src=.https?:", text), page
        assert not re.findall(r"<link[^>]*rel=.stylesheet[^>]*href=.https?:", text), page


@pytest.mark.skipif(CHROMIUM is None, reason="needs a browser")
def test_the_site_can_be_searched_from_disk(site):
    with Browser() as page:
        page.ask("Page.navigate", url=(site / "theory" / "index.html").as_uri())
        page.until("document.readyState == 'complete'")
        assert page.get("document.querySelector('[src$=\"search/main.js\"]') != null")
        for words in ("generalized-alpha method", "energy: [*"):  # the second is no query
            page.get(
                f"(box => {{ box.value = {words!r}; box.dispatchEvent(new Event('input')); }})"
                "(document.getElementById('mkdocs-search-query'))"
            )
            page.until("document.querySelector('#mkdocs-search-results article a') != null")
        first = page.get("document.querySelector('#mkdocs-search-results article a').href")
        assert first.startswith(site.as_uri())
        page.ask("Page.navigate", url=first)
        page.until(f"document.readyState == 'complete' && location.href == {first!r}")
        assert all(x.startswith("file:") for x in page.requests)
        assert not page.errors
