"""The rooms of the house: who may import whom, drawn from the source."""

import ast
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

import holonax

ROOT = Path(holonax.__file__).parent

# Each room with what it may know, from the bottom up: only rooms that stand before it.
LAYERS = {
    "linalg": "",
    "rotation": "",
    "compiler": "",
    "system": "linalg rotation compiler",
    "model": "rotation system",
    "problem": "linalg system",
    "formulation": "linalg system problem",
    "integrator": "linalg system problem",
    "start": "linalg compiler system",
    "result": "compiler rotation system problem formulation start",
    "run": "linalg compiler system problem formulation integrator start result",
    "analysis": "linalg compiler rotation system problem formulation integrator start result run",
    "many": "compiler system model formulation integrator start run",
    "study": "system problem formulation integrator start result run analysis",
    "examples": "system model start",
    "view": "system result many",
    "io": "holonax system model run",
    "papers": "holonax",
    "cli": "holonax examples papers study",
}
# What is imported inside of functions only: the methods of a model that run and analyse it, and
# those of a result that draw it, go through the public names, and the command line and the papers
# have nothing else.
LATE = {"model": {"holonax", "io", "view"}, "result": {"holonax", "io", "view"}}

# Modules of one name in several rooms that mean the same there, and a class that a user knows by
# the room it is in (`hx.Table` and `hx.papers.Table`).
SAME_MODULES = {"__init__", "base", "algebraic"}
SAME_CLASSES = {"Table": {"papers.report", "system.signals"}}


class Import(NamedTuple):
    """That `module` imports `name` from `target`; when: "import", "late" (in a function) or
    "types" (for the type checker only)."""

    module: str
    target: str
    name: str
    when: str


def modules():
    """The source of each module by its name, less the first "holonax."."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        found[".".join(parts)] = ast.parse(path.read_text(encoding="utf-8"))
    return found


MODULES = modules()
PACKAGES = {
    ".".join(p.parent.relative_to(ROOT).parts) for p in ROOT.rglob("__init__.py") if p.parent
}


def is_for_types(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def imports_in(module, tree):
    """All imports of our own modules; relative ones are resolved."""
    package = module if module in PACKAGES else module.rpartition(".")[0]

    def visit(node, when):
        for child in ast.iter_child_nodes(node):
            inner = when
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                inner = "late"
            elif is_for_types(child):
                inner = "types"
            yield from visit(child, inner)
            if isinstance(child, ast.Import):
                for name in child.names:
                    first, _, rest = name.name.partition(".")
                    if first == "holonax":
                        yield Import(module, rest, "", when)
            elif isinstance(child, ast.ImportFrom):
                base = _absolute(package, child)
                if base is None:
                    continue
                for name in child.names:
                    inside = f"{base}.{name.name}".lstrip(".")
                    target = inside if inside in MODULES else base
                    yield Import(module, target, name.name, when)

    yield from visit(tree, "import")


def _absolute(package, node):
    """The module an import is from, less the first "holonax."; None for other packages."""
    if node.level == 0:
        first, _, rest = node.module.partition(".")
        return rest if first == "holonax" else None
    above = package.split(".")[: len(package.split(".")) - (node.level - 1)] if package else []
    return ".".join([*above, *(node.module.split(".") if node.module else [])])


IMPORTS = [found for module, tree in MODULES.items() for found in imports_in(module, tree)]


def room(module):
    return module.partition(".")[0] or "holonax"


def is_private(name):
    """Helpers that know no room: messages, checks of numbers and arguments, the cache."""
    return room(name).startswith("_")


def test_the_scan_sees_all_kinds_of_imports():
    program = """
from . import loop
from ..formulation import Index3
import holonax.view
def f():
    from .. import simulate
    from ..model import Model
if TYPE_CHECKING:
    from .events.check import as_events
"""
    found = {(i.target, i.when) for i in imports_in("run.simulate", ast.parse(program))}
    assert found == {
        ("run.loop", "import"),
        ("formulation", "import"),
        ("view", "import"),
        ("", "late"),
        ("model", "late"),
        ("run.events.check", "types"),
    }


def test_the_rooms_stand_on_each_other():
    order = ["holonax", *LAYERS]
    for name, known in LAYERS.items():
        assert all(order.index(x) < order.index(name) for x in known.split()), name
    rooms = {room(module) for module in MODULES if not is_private(module)} - {"holonax"}
    assert rooms == set(LAYERS), "a room that is not in the table, or no longer there"


def test_imports_go_downwards():
    offences = []
    for found in IMPORTS:
        here, there = room(found.module), room(found.target)
        if here == there or here == "holonax" or is_private(found.target):
            continue
        known = set() if is_private(found.module) else set(LAYERS[here].split())
        if found.when != "import":
            known |= LATE.get(here, set())
        if there not in known:
            offences.append(f"{found.module} imports {found.target or 'holonax'} ({found.when})")
    assert not offences, "\n".join(offences)


def test_no_two_modules_import_each_other():
    """Of one room as well: what a module needs at its import is there before it."""
    graph = defaultdict(set)
    for found in IMPORTS:
        if found.when == "import" and found.module and found.target != found.module:
            graph[found.module].add(found.target)
    done, path = set(), []

    def visit(module):
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            path.append(module)
            for target in graph[module]:
                visit(target)
            path.pop()
            done.add(module)

    for module in MODULES:
        if module:
            visit(module)


@pytest.mark.parametrize("outside", ["model", "io", "papers", "cli"])
def test_the_public_interface_is_enough(outside):
    """For what is built upon it, and where a model runs and analyses itself: names of `holonax`
    and of its public modules."""
    rooms = ("analysis", "examples", "io", "papers", "study", "view")
    public = {f"hx.{name}" for name in holonax.__all__}
    inner = {f"hx.{x}.{name}" for x in rooms for name in getattr(holonax, x).__all__}
    said = {
        f"hx.{found.name}"
        for found in IMPORTS
        if room(found.module) == outside and found.target == "" and found.name
    }
    for module, tree in MODULES.items():
        for node in ast.walk(tree) if room(module) == outside else ():
            if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("hx."):
                said.add(ast.unparse(node))
    names = {".".join(x.split(".")[:2]) for x in said}
    assert names <= public, names - public
    nested = {".".join(x.split(".")[:3]) for x in said if x.count(".") > 1}
    nested = {x for x in nested if x.split(".")[1] in rooms}
    assert nested <= inner, nested - inner


def test_one_name_has_one_meaning():
    stems, classes = defaultdict(set), defaultdict(set)
    for module, tree in MODULES.items():
        if module and module not in PACKAGES:
            stems[module.rpartition(".")[2]].add(module)
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].add(module)
    twice = {name: where for name, where in stems.items() if len(where) > 1}
    assert {name: x for name, x in twice.items() if name not in SAME_MODULES} == {}
    twice = {name: where for name, where in classes.items() if len(where) > 1}
    assert {name: x for name, x in twice.items() if SAME_CLASSES.get(name) != x} == {}


def test_each_failure_has_a_sentence():
    from holonax.run.status import Failure

    assert len({failure.value for failure in Failure}) == len(Failure.__members__)
    assert len({failure.sentence for failure in Failure}) == len(Failure)
    assert all(failure.sentence[-1] not in ".;" for failure in Failure)
