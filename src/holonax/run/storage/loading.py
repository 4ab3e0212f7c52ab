"""Reading a run: the newest checkpoint that is whole, with what the caller gives again."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax

from ..._messages import listed
from ..._version import __version__
from ...compiler import counts
from .checkpoint import ABOUT, KIND, PARTS, Storage, file_name
from .container import Content, Spoilt, StorageError, unpacked
from .folder import Folder, reason, remedy
from .identity import traced
from .record import Missing, Reader, Record, Writer, differences
from .state_files import StateFiles


class LoadedRun(NamedTuple):
    """A run to go on with; `outcome` is None unless it has ended."""

    storage: Storage
    run: Any
    method: Any
    state: Any
    outcome: Any


def load(folder: Folder, given: dict[str, Any]) -> LoadedRun:
    """The run whose checkpoints are in a directory, which is locked from then on.

    `given` are those of `PARTS` that the caller gives again.
    """
    refused = _lock(folder)
    try:
        loaded = _loaded(folder, given)
        if refused is not None and loaded.outcome is None:
            raise refused
        if refused is None:
            folder.mark()
            folder.tidy()
    except OSError as error:
        folder.release()
        raise StorageError(
            f"resume: the run in {folder.shown} cannot be gone on with: {reason(error)}. "
            f"{remedy(error)}"
        ) from None
    except BaseException:
        folder.release()
        raise
    return loaded


def _lock(folder: Folder) -> OSError | None:
    """Lock a directory that is to be read from; why not, where nothing can be written to it."""
    try:
        if folder.path.is_dir():
            folder.lock("resume")
    except OSError as error:
        return error
    return None


def _loaded(folder: Folder, given: dict[str, Any]) -> LoadedRun:
    content, files, parts = _newest(folder)
    said = content.said
    try:
        record = Record(dict(said["objects"]), content.arrays)
        writer = _compared(said, record, given)
        _check_programs(said, record, writer, given)
        reader = Reader(record, writer.made, writer.left_out)
        # so that what was not given, but made again, is recognised when it is written
        again = {part: given.get(part, reader.read(said["given"][part])) for part in PARTS}
        run, method, state, outcome = reader.read(said["content"])
    except Spoilt as error:
        raise StorageError(
            f"resume: the checkpoint in {folder.shown} is spoilt: {error}."
        ) from None
    except Missing as part:
        raise StorageError(_missing(said, str(part))) from None
    storage = Storage(folder, every=said["every"], forget=said["forget"])
    storage.go_on(said, files, again)
    run.states.parts = parts
    storage.kept = len(parts)
    run.began = time.perf_counter()
    run.compiled_before = counts.so_far
    return LoadedRun(storage, run, method, state, outcome)


# -- files -------------------------------------------------------------------------------------


def _candidates(folder: Folder) -> Iterator[tuple[str, Content | str]]:
    """The checkpoints of a directory, each with its content, or with what is wrong with it."""
    for name in (file_name(1), file_name(2)):
        try:
            content = unpacked(KIND, folder.read(name))
            if not {*ABOUT, "turn", "t", "files", "objects", "content"} <= set(content.said):
                raise Spoilt("it was not written by holonax")
            yield name, content
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            yield name, f"it cannot be read ({reason(error)})"
        except Spoilt as error:
            yield name, str(error)


def _newest(folder: Folder) -> tuple[Content, StateFiles, list[Any]]:
    """The newest checkpoint that is whole, its state files, and the states that are kept in
    memory."""
    there = list(_candidates(folder))
    if not there:
        raise StorageError(
            f"resume: there is no checkpoint in {folder.shown}. Give the path that simulate was "
            "given as checkpoint."
        )
    wrong = [f"{name}: {what}" for name, what in there if isinstance(what, str)]
    whole = [(name, what) for name, what in there if not isinstance(what, str)]
    for name, content in sorted(whole, key=lambda x: -x[1].said["turn"]):
        said = content.said
        _check_version(said)
        files = StateFiles(folder, said["run"], *said["files"])
        try:
            parts = [part for some in files.read() for part in some if not said["forget"]]
        except StorageError as error:
            wrong.append(str(error))
            continue
        if wrong:
            warnings.warn(
                f"resume: a file in {folder.shown} is spoilt ({'; '.join(wrong)}). The run goes on "
                f"from {name}, t = {said['t']:g} s.",
                stacklevel=5,
            )
        return content, files, parts
    raise StorageError(
        f"resume: no checkpoint in {folder.shown} is whole ({'; '.join(wrong)}). Begin the run "
        "anew with simulate."
    )


def _check_version(said: dict[str, Any]) -> None:
    if said["version"] != __version__:
        raise StorageError(
            f"resume: the checkpoint was written by holonax {said['version']}, this is "
            f"{__version__}. Resume it with that version."
        )


# -- what is given again -----------------------------------------------------------------------


def _compared(said: dict[str, Any], record: Record, given: dict[str, Any]) -> Writer:
    """What the caller gives, taken apart; refused unless it is what the run was begun with."""
    writer = Writer()
    for part, thing in given.items():
        node = writer.write(part, thing)
        found = differences(record, writer.record, said["given"][part], node, part)
        first = next(found, None)
        if first is not None:
            raise StorageError(
                f"resume: this is not the run that was begun: {first}. Give {part}= as it was "
                "given to simulate, or begin a new run with simulate."
            )
    for part in PARTS:
        if part not in given and said["left_out"][part]:
            raise Missing(part)
    return writer


def _missing(said: dict[str, Any], part: str) -> str:
    """That a part has to be given."""
    parts = [x for x in PARTS if said["left_out"][x]]
    names = [name for x in parts for name in said["left_out"][x]]
    return (
        f"resume: the run uses functions or classes that a file cannot hold: {listed(names)}. Give "
        f"{' and '.join(f'{x}=' for x in parts or [part])} as given to simulate."
    )


def _check_programs(
    said: dict[str, Any], record: Record, writer: Writer, given: dict[str, Any]
) -> None:
    """Refuse functions that do something else than those the run was begun with."""
    if not said["programs"]:
        return
    reader = Reader(record, writer.made, writer.left_out)
    start = reader.read(said["content"])[0].start
    system = given.get("system", reader.read(said["given"]["system"]))
    events = given.get("events", reader.read(said["given"]["events"]))
    try:
        now = traced(system, events, start.t, start.q, start.v)
    except Exception as error:
        raise StorageError(
            "resume: the functions given cannot be called as those of the run were "
            f"({type(error).__name__}). Give system= and events= as given to simulate."
        ) from error
    other = [name for name, number in said["programs"].items() if now.get(name) != number]
    if other:
        version = ""
        if said["jax"] != jax.__version__:
            version = f", or JAX does, which was {said['jax']} and is {jax.__version__}"
        raise StorageError(
            "resume: this is not the run that was begun: a function computes something else "
            f"({listed(other)}{version}). Give functions as they were given to simulate, or begin "
            "a new run with simulate."
        )
