"""A result in a file: every quantity by its name, and how the run went."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._arguments import checked_call, folder
from .._messages import shown
from .._optional import require
from .named import Entry, Registry, expanded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .result import Result


def columns(result: Result, names: Sequence[str], owner: str) -> dict[str, np.ndarray]:
    """The named quantities over time, each (n,); all of them where none is named."""
    registry = result._named
    wanted = expanded(owner, result, names) if names else list(registry.numbers())
    return {name: registry.values(owner, name) for name in wanted}


def dataframe(result: Any, names: Sequence[str]) -> Any:
    """The named quantities as a table of pandas over the time."""
    pandas = require("pandas")
    index = pandas.Index(np.asarray(result.t), name="t")
    return pandas.DataFrame(columns(result, names, "to_dataframe"), index=index)


def dataset(result: Any, names: Sequence[str]) -> Any:
    """The named quantities as a data set of xarray over the time, with their units."""
    xarray = require("xarray")
    units = result._named.numbers()
    found = columns(result, names, "to_xarray")
    data = {x: ("t", y, {"units": units[x]} if units.get(x) else {}) for x, y in found.items()}
    times = ("t", np.asarray(result.t), {"units": "s"})
    said = {"message": result.message, "status": result.status}
    return xarray.Dataset(data, coords={"t": times}, attrs=said)


def save(result: Any, path: str | Path, names: Sequence[str]) -> Path:
    """Write the named quantities to a file, .nc (netCDF), .csv or .parquet."""
    from ..io.columns import write_columns

    where = folder("save", "path", path)
    table = {"t": np.asarray(result.t), **columns(result, names, "save")}
    units = {"t": "s", **{x: u for x, u in result._named.numbers().items() if u}}
    write_columns(where, table, units, _notes(result))
    return where


def _notes(result: Any) -> dict[str, str]:
    """How the run went, and the model if it can be written down."""
    notes = {"title": "holonax result", "status": result.status, "message": result.message}
    notes["success"] = "yes" if result.success else "no"
    model = getattr(result, "model", None)
    if model is None and getattr(result.system, "origin", None) is not None:
        try:
            model = result.system.origin.to_dict(result.system.numbers)
        except ValueError:  # it has functions, which no file holds
            model = None
    return notes if model is None else {**notes, "model": json.dumps(model)}


class _Kept(Registry):
    """Quantities that were computed before."""

    def __init__(self, values: dict[str, np.ndarray], units: dict[str, str]):
        self._known = values
        self.entries = {x: Entry(units.get(x, ""), (), lambda: np.zeros(0)) for x in values}


class SavedResult:
    """What a file knows of a run: the times `t`, quantities by name, how it went.

    `model` is the dictionary of the model, for `Model.from_dict`, where it had no functions.
    Vectors are there by their components, ``"crank.velocity.x"``.
    """

    def __init__(self, t: np.ndarray, registry: _Kept, said: dict[str, str]):
        self.t, self._named = t, registry
        self.status, self.message = said.get("status", ""), said.get("message", "")
        self.success = said.get("success") == "yes"
        self.model = json.loads(said["model"]) if "model" in said else None
        self.system, self.stats = None, {"saved": "times"}

    def quantity(self, name: str) -> np.ndarray:
        """A quantity by its name, over time."""
        return self._named.values("quantity", name)

    def quantities(self) -> dict[str, str]:
        """The names that `quantity` knows, each with its unit."""
        return self._named.units()

    def plot(self, *names: str, x: str | None = None, y: Any = None, title: str = "") -> Any:
        """A figure of named quantities, as `Result.plot`."""
        from .. import view

        return view.curves(self, names, x=x, y=y, title=title)  # pyright: ignore

    def to_dataframe(self, *names: str) -> Any:
        """As `Result.to_dataframe`."""
        return dataframe(self, names)

    def to_xarray(self, *names: str) -> Any:
        """As `Result.to_xarray`."""
        return dataset(self, names)

    def save(self, path: str | Path, *names: str) -> Path:
        """As `Result.save`."""
        return save(self, path, names)

    def __repr__(self) -> str:
        return f"<SavedResult: {self.message}; {len(self._named.entries)} quantities>"


@checked_call
def load_result(path: str | Path) -> SavedResult:
    """What `Result.save` has written to a netCDF file.

    Nothing in the file is executed. For tables of other programs use xarray or pandas.
    """
    where = folder("load_result", "path", path)
    from scipy.io import netcdf_file

    try:
        with netcdf_file(where, "r", mmap=False) as file:
            said = {k: v.decode("utf-8", "replace") for k, v in _texts(file._attributes)}
            found = {str(n): np.array(x[:], dtype=float) for n, x in file.variables.items()}
            long = {str(n): dict(_texts(x._attributes)) for n, x in file.variables.items()}
    except Exception as error:  # whatever a file that is none may lead to
        raise ValueError(
            f"load_result: {shown(str(where))} cannot be read ({type(error).__name__}: {error}). "
            "Give a file that result.save(...) has written, ending in .nc."
        ) from None
    if said.get("title") != "holonax result" or "t" not in found:
        raise ValueError(
            f"load_result: {shown(str(where))} was not written by result.save(...). Give one that "
            "was, or read it with xarray."
        )
    words = {n: {k: v.decode("utf-8", "replace") for k, v in x.items()} for n, x in long.items()}
    names = {n: x.get("long_name", n) for n, x in words.items()}
    units = {names[n]: x["units"] for n, x in words.items() if "units" in x}
    values = {names[n]: x for n, x in found.items() if n != "t"}
    return SavedResult(found["t"], _Kept(values, units), said)


def _texts(attributes: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    return [(str(k), bytes(v)) for k, v in attributes.items() if isinstance(v, bytes)]
