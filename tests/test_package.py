"""The package as it is delivered: a pure-Python wheel whose core needs no optional dependency."""

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import holonax

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "holonax"
COMMAND = ROOT / "src" / "holonax_cli"  # the command, which imports the library when it computes
OPTIONAL = {
    "matplotlib",
    "viser",
    "xarray",
    "h5netcdf",
    "pydantic",
    "typer",
    "rich",
    "pyarrow",
    "yourdfpy",
    "PIL",
    "pandas",
}


def is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def imported_on_import(node: ast.AST):
    """The (line, top-level package) pairs that importing the module imports as well."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and is_type_checking(child.test):
            for statement in child.orelse:
                yield from imported_on_import(ast.Module([statement], []))
            continue
        if isinstance(child, ast.Import):
            yield from ((child.lineno, alias.name.split(".")[0]) for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.level == 0:
            yield child.lineno, (child.module or "").split(".")[0]
        yield from imported_on_import(child)


def test_scan_sees_what_an_import_runs():
    program = """
import numpy, rich.console
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import xarray
else:
    import pandas
try:
    from matplotlib import pyplot
except ImportError:
    pass
class A:
    import typer
def f():
    import viser
"""
    found = {name for _, name in imported_on_import(ast.parse(program))}
    assert found & OPTIONAL == {"rich", "pandas", "matplotlib", "typer"}


def test_no_module_imports_an_optional_dependency():
    offences = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, name in imported_on_import(ast.parse(path.read_text(encoding="utf-8")))
        if name in OPTIONAL
    ]
    assert not offences, "import these inside the function that needs them:\n" + "\n".join(offences)


def test_an_import_is_cheap():
    """Large packages are imported by what needs them, and nothing is computed."""
    heavy = ["scipy", "diffrax", "lineax", "optimistix", "matplotlib", "llvmlite"]
    program = (
        "import sys, holonax\n"
        "from jax._src import xla_bridge\n"
        f"found = sorted(set({heavy!r}) & set(sys.modules))\n"
        "assert not found, found\n"
        "assert not xla_bridge.backends_are_initialized()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT / "src")


def test_every_public_name_is_there():
    assert set(holonax.__all__) <= set(dir(holonax))
    for name in holonax.__all__:
        assert getattr(holonax, name) is not None
    with pytest.raises(AttributeError, match="'holonax' has no attribute 'nothing'"):
        _ = holonax.nothing


@pytest.mark.slow
def test_every_module_can_be_imported_without_the_optional_dependencies():
    modules = sorted(
        ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        for path in SOURCE.rglob("*.py")
        if path.name != "__main__.py"
    )
    program = (
        "import sys, importlib\n"
        f"sys.modules.update(dict.fromkeys({sorted(OPTIONAL)!r}))\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT / "src")


@pytest.mark.slow
def test_the_wheel_is_pure_python(tmp_path):
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation"]
    subprocess.run([*build, "--outdir", tmp_path, ROOT], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "holonax/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(name.startswith(("tests", "examples")) for name in names)
    delivered = {name for name in names if name.endswith((".py", ".json", ".toml"))}
    here = (path for folder in (SOURCE, COMMAND) for path in folder.rglob("*.*"))
    wanted = (x for x in here if x.suffix in (".py", ".json", ".toml"))
    assert {str(path.relative_to(ROOT / "src")) for path in wanted} <= delivered


def test_what_is_required_is_imported():
    """Every dependency is imported somewhere, every import of another package is a dependency."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name = lambda x: re.match(r"[\w-]+", x)[0].lower()  # noqa: E731
    core = {name(x) for x in project["dependencies"]}
    optional = {k: {name(x) for x in xs} for k, xs in project["optional-dependencies"].items()}
    found = {"flatbuffers"}  # by jax.export
    renamed = {
        "PIL": "pillow",
        "imageio_ffmpeg": "imageio-ffmpeg",
        "mpl_toolkits": "matplotlib",
        "contourpy": "matplotlib",
        "jaxlib": "jax",
    }
    for path in (*SOURCE.rglob("*.py"), *COMMAND.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                found.add((node.module or "").split(".")[0])
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "require":
                found.add(ast.literal_eval(node.args[0]).split(".")[0])
    others = {renamed.get(x, x) for x in found} - set(sys.stdlib_module_names)
    others -= {"holonax", "holonax_cli"}
    extras = [packages for extra, packages in optional.items() if extra != "dev"]
    assert others == core.union(*extras)  # an extra leads somewhere


def test_no_file_of_another_package_is_loaded_by_its_path():
    words = ("spec_from_file_location", "SourceFileLoader", "find_spec", "run_path")
    offences = [
        path.relative_to(ROOT)
        for path in SOURCE.rglob("*.py")
        if any(word in path.read_text(encoding="utf-8") for word in words)
    ]
    assert offences == []
