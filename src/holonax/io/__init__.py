"""Files: models as TOML, JSON and units of FMI; systems from the symbols of SymPy.

`load` and `save` are about models; `ModelFile` also has what a file says of parameters, of the run
and of its outputs. `schema` is the JSON schema of model files.
"""

from .columns import write_table
from .fmu import export_fmu
from .from_sympy import from_sympy
from .model_file import ModelFile, load, save
from .problems import FileError
from .schema import schema

__all__ = [
    "FileError",
    "ModelFile",
    "export_fmu",
    "from_sympy",
    "load",
    "save",
    "schema",
    "write_table",
]
