"""Results as tables: named columns over time, written as CSV, netCDF or parquet."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._arguments import checked_call, folder, names
from .._messages import listed, shown
from ..model.items import ModelError
from ..system.expressed import full_name, is_expression
from ..system.expression import Expression
from ..system.expression_parser import ExpressionError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .. import Result

_SUFFIXES = (".csv", ".nc", ".parquet")


@checked_call
def table_columns(
    result: Result, outputs: Mapping[str, str] | Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """The time and named quantities of a result, each (n,): expressions or names, or without any
    where the bodies are and how they move."""
    table: dict[str, Any] = {"t": np.asarray(result.t)}
    if not isinstance(outputs, Mapping):
        outputs = {name: name for name in outputs}
    if not outputs:
        return table | _states(result)
    for name, text in outputs.items():
        table |= _column(result, name, text)
    return table


def _column(result: Result, name: str, text: str) -> dict[str, Any]:
    try:
        if not is_expression(text):
            return _spread(result, name, result.quantity(text))
        known = {
            path: result.quantity(path if node.owner is None else full_name(node))
            for path, node in Expression(text).names.items()
            if path != "t"
        }
        found = Expression(text).evaluated({"t": np.asarray(result.t), **known})
    except KeyError as error:
        raise ModelError(f"output {name!r}: {error.args[0]}") from None
    except ExpressionError as error:
        raise ModelError(f"output {name!r}: {error}") from None
    return {name: np.broadcast_to(np.asarray(found, float), np.shape(result.t))}


def _spread(result: Result, name: str, values: object) -> dict[str, Any]:
    """A vector as one column for each component."""
    values = np.asarray(values)
    if values.ndim == 1:
        return {name: values}
    labels = "xyz" if values.shape[1] in (2, 3) else [f"e{k}" for k in range(values.shape[1])]
    return {f"{name}.{label}": values[:, k] for k, label in enumerate(labels)}


def _states(result: Result) -> dict[str, np.ndarray]:
    """Every coordinate, velocity and state of first order, by its name."""
    system, nq, nv = result.system, result.q.shape[1], result.v.shape[1]
    states, idle, hidden = system.states(nv), system.idle(nv), system.carriers(nq)
    coordinates, velocities = system.coordinate_names(nq), system.velocity_names(nv)
    out = {x: np.asarray(result.q[:, k]) for k, x in enumerate(coordinates) if k not in hidden}
    for k, name in enumerate(velocities):
        if k not in idle:
            out[name if k in states else f"d {name}"] = np.asarray(result.v[:, k])
    return out


@checked_call
def write_table(
    result: Result, path: str | Path, outputs: Mapping[str, str] | Sequence[str] = ()
) -> Path:
    """Write quantities of a result over time to a file: .csv, .nc (netCDF) or .parquet by its name.

    `outputs` are names of quantities, ``["A.angle", "crank.position"]``, or expressions by name,
    ``{"lead": "A.angle - 2 * B.angle"}``; without any all coordinates and velocities are written.
    Numbers in .csv are written by `repr`, so that reading them gives the same bits.
    """
    from .. import Result

    where = folder("write_table", "path", path)
    if not isinstance(result, Result):
        raise TypeError(f"write_table: {shown(result)} is not a Result. Give one of simulate.")
    if not isinstance(outputs, Mapping):
        outputs = names("write_table", "outputs", outputs)
    elif not all(isinstance(x, str) for pair in outputs.items() for x in pair):
        raise TypeError(f"write_table: outputs={shown(outputs)} must have names and expressions.")
    write_columns(where, table_columns(result, outputs), _units(result))
    return where


def _units(result: Result) -> dict[str, str]:
    described = getattr(result.system, "origin", None) is not None
    return {"t": "s", **(result.quantities() if described else {})}


def write_columns(
    path: Path,
    table: Mapping[str, Any],
    units: Mapping[str, str] | None = None,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Write columns of one length to a .csv, .nc or .parquet file; `notes` go into a .nc file."""
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise ModelError(
            f"{shown(str(path))}: a table ends in {listed(_SUFFIXES)}. Choose one of these."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if suffix == ".nc":
            _netcdf(path, table, units or {}, notes or {})
        else:
            {".csv": _csv, ".parquet": _parquet}[suffix](path, table, units or {})
    except OSError as error:
        raise ModelError(f"{path} cannot be written: {error.strerror or error}.") from None


def _csv(path: Path, table: Mapping[str, np.ndarray], units: Mapping[str, str]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv_lines(file, table)


def csv_lines(file: Any, table: Mapping[str, ArrayLike]) -> None:
    """Write columns as lines of comma-separated values."""
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(table)
    lines.writerows(zip(*(np.asarray(x).tolist() for x in table.values()), strict=True))


def _netcdf(
    path: Path, table: Mapping[str, np.ndarray], units: Mapping[str, str], notes: Mapping[str, str]
) -> None:
    from scipy.io import netcdf_file

    size = len(next(iter(table.values())))
    with netcdf_file(path, "w", version=2) as file:
        dimension = "t" if "t" in table else "row"
        file.createDimension(dimension, size)
        for name, values in table.items():
            column = file.createVariable(name.replace("/", "_"), "f8", (dimension,))
            column[:] = np.asarray(values, float)
            if units.get(name):
                column.units = units[name]
            if "/" in name:
                column.long_name = name
        for name, text in notes.items():
            setattr(file, name, text.encode("utf-8") or b" ")


def _parquet(path: Path, table: Mapping[str, Any], units: Mapping[str, str]) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ImportError(
            "parquet files need pyarrow, which cannot be imported: pip install pyarrow; or write "
            ".csv or .nc instead."
        ) from None
    parquet.write_table(pyarrow.table({k: np.asarray(x) for k, x in table.items()}), path)
