"""Writing a run: its states as it goes, and checkpoints, everything that it goes on from.

Two files are written in turn, each with the number of its turn, so that a spoilt one costs no more
than an interval.
"""

from __future__ import annotations

import contextlib
import time
import uuid
import warnings
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax

from ..._messages import listed
from ..._version import __version__
from .container import StorageError, packed
from .folder import Folder, reason, remedy
from .identity import traced
from .record import Writer
from .state_files import StateFiles

if TYPE_CHECKING:
    from ...result.states import States
    from ..driver import Outcome, Run
    from ..loop import LoopState

KIND = "checkpoint"
_MANY = 2**16  # states that are kept in memory, of a run that writes them to files
ABOUT = ("version", "jax", "run", "every", "forget", "given", "left_out", "programs")
PARTS = ("system", "events", "formulation", "integrator")  # what a caller gives


def file_name(turn: int) -> str:
    """The file that is written in a turn."""
    return f"checkpoint-{2 - turn % 2}.hxc"


class Storage:
    """The directory of a run.

    **Arguments:**

    - `folder`: the directory, made if need be.
    - `every`: seconds between checkpoints; None for states only.
    - `forget`: whether states that have been written are dropped from memory.
    """

    def __init__(self, folder: Folder, *, every: float | None, forget: bool):
        self.folder, self.every, self.forget = folder, every, forget
        self.kept = 0  # parts in memory that have been written
        self.trouble = ""  # why the last attempt to write has failed
        self.full = False  # whether the run cannot go on, since its states have no place
        self._due = time.monotonic()
        self._turn = 0
        self._files = StateFiles(folder, uuid.uuid4().hex)
        self._given = Writer()
        self._about: dict[str, Any] = {}

    def begin(self, run: Run, method: object, given: dict[str, Any]) -> None:
        """Take possession of the directory, and write a first checkpoint, at the start of a run.

        `given` are the things of `PARTS` as the caller of simulate gave them.
        """
        self.folder.claim()
        try:
            self.folder.clear()
            if self.every is not None:
                self._know(run, given)
                self._write(run, method, None, None)
        except OSError as error:
            self.close()
            raise StorageError(
                f"simulate: a run cannot be written to {self.folder.shown}: {reason(error)}. "
                f"{remedy(error)}"
            ) from None
        except BaseException:
            self.close()
            raise

    def go_on(self, said: dict[str, Any], files: StateFiles, given: dict[str, Any]) -> None:
        """Where a checkpoint was written that `said` so."""
        self._turn, self._files = said["turn"], files
        nodes = {part: self._given.write(part, given[part]) for part in PARTS}
        self._about = {**{name: said[name] for name in ABOUT}, "given": nodes}
        self._due = time.monotonic() + said["every"]

    def close(self) -> None:
        """Let other processes use the directory."""
        self.folder.release()

    def _know(self, run: Run, given: dict[str, Any]) -> None:
        """Take apart what the caller gave."""
        nodes = {part: self._given.write(part, given[part]) for part in PARTS}
        left_out = {part: [called(x) for x in xs] for part, xs in self._given.left_out.items()}
        programs = {}
        if left_out["system"] or left_out["events"]:
            start = run.start
            programs = traced(given["system"], given["events"], start.t, start.q, start.v)
        self._about = {
            "version": __version__,
            "jax": jax.__version__,
            "run": self._files.run,
            "every": self.every,
            "forget": self.forget,
            "given": nodes,
            "left_out": left_out,
            "programs": programs,
        }

    # -- writing ---------------------------------------------------------------------------

    def flush(self, states: States) -> None:
        """Write the states that are not yet in a file; raises OSError."""
        if states.parts[self.kept :]:
            self._files.add(states.parts[self.kept :])
        if self.forget:
            states.parts.clear()
        self.kept = len(states.parts)

    def maybe(self, run: Run, method: object, state: LoopState | None) -> None:
        """A checkpoint if it is time for one; states as soon as there are many."""
        self.folder.beat()
        if self.every is not None and time.monotonic() >= self._due:
            self.checkpoint(run, method, state)
        elif self.forget and sum(ts.size for _, ts, _ in run.states.parts) > _MANY:
            self._attempt(run, lambda: self.flush(run.states))

    def checkpoint(
        self, run: Run, method: object, state: LoopState | None, outcome: Outcome | None = None
    ) -> None:
        """Write everything a run goes on from. A run that only loses its checkpoints goes on; one
        whose states have no place any more is `full`."""

        def write() -> None:
            self.flush(run.states)
            if self.every is not None:
                self._write(run, method, state, outcome)

        self._attempt(run, write)

    def _attempt(self, run: Run, write: Any) -> None:
        try:
            write()
        except OSError as error:
            what = "states" if self.forget else "checkpoints"
            told = bool(self.trouble)
            self.trouble = (
                f"{what} could not be written to {self.folder.shown}: {reason(error)}. "
                f"{remedy(error)}"
            )
            self.full = self.forget
            self._due = time.monotonic() + (self.every or 0.0)
            if not told and not self.full:
                warnings.warn(
                    f"simulate: at t = {run.t:g} s {self.trouble} The run goes on without.",
                    stacklevel=2,
                )
        else:
            self.trouble = ""

    def _write(
        self, run: Run, method: object, state: LoopState | None, outcome: Outcome | None
    ) -> None:
        began = time.monotonic()
        writer = self._given.copy()
        # without the states, which have files of their own, and without whom to report to
        kept, kept.states = copy(run), copy(run.states)
        kept.states.parts, kept.request = [], replace(run.request, progress=None)
        kept.spent = run.spent + time.perf_counter() - run.began
        kept.began, kept.compiled_before, kept.reported = 0.0, (0, 0.0), 0.0
        node = writer.write("run", (kept, method, state, outcome))
        if writer.left_out["run"]:
            raise StorageError(
                "simulate: a checkpoint cannot hold "
                f"{listed(map(called, writer.left_out['run']))}, which belongs neither to the "
                "system nor to the events. Leave checkpoint out."
            )
        files = self._files
        said = {
            **self._about,
            "turn": self._turn + 1,
            "written": time.time(),
            "t": run.t,
            "files": [files.count, files.rows, files.digest],
            "objects": writer.record.objects,
            "content": node,
        }
        data, _ = packed(KIND, said, writer.record.arrays)
        self.folder.write(file_name(self._turn + 1), data)
        self._turn += 1
        # as long as writing takes is computed in between at least
        ended = time.monotonic()
        self._due = max(began + (self.every or 0.0), ended + (ended - began))

    # -- results ---------------------------------------------------------------------------

    def arrays(self, states: States) -> dict[str, Any]:
        """All states of a run: arrays on disk if it keeps none in memory, and there is room."""
        if not self.forget:
            return states.arrays()
        with contextlib.suppress(OSError):  # then they are still in memory
            self.flush(states)
        try:
            out = self._files.gathered(states.parts)
            return {**out, "solved": (None,) * len(states.legs), "legs": tuple(states.legs)}
        except OSError as error:
            self.trouble = self.trouble or (
                f"arrays could not be written to {self.folder.shown}: {reason(error)}; they are in "
                f"memory. {remedy(error)}"
            )
        whole = copy(states)
        whole.parts = [part for some in self._files.read() for part in some] + states.parts
        return whole.arrays()


def called(thing: object) -> str:
    """What to call a thing that a file does not hold."""
    return getattr(thing, "__qualname__", None) or type(thing).__qualname__
