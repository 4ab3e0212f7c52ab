"""A hook of mkdocs: the site's search works in pages that are opened from disk.

mkdocs searches in a worker that fetches its index, and browsers allow neither to a page without a
server. Here the index is written as a script, and `site_search.js` searches it in the page.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def on_post_build(config: Any, **_: Any) -> None:
    """Put our script in the place of that of mkdocs, and the index beside it."""
    folder = Path(config["site_dir"]) / "search"
    index = folder / "search_index.json"
    said = index.read_text(encoding="utf-8")
    (folder / "search_index.js").write_text(f"window.search_index = {said};\n", encoding="utf-8")
    ours = Path(__file__).with_name("site_search.js")
    (folder / "main.js").write_text(ours.read_text(encoding="utf-8"), encoding="utf-8")
    for needless in (index, folder / "worker.js"):
        needless.unlink()
