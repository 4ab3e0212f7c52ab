"""Simbody: the chain as a tree of ball joints; a small C++ program, where its headers are found.

Debian has them in libsimbody-dev. Elsewhere the compiler finds them through CPATH and
LIBRARY_PATH, and the program its libraries through LD_LIBRARY_PATH.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np

from ..measure import BUILD, Recorder, tool_main
from ..problems import chain

PROGRAM = BUILD / "simbody"
LIBRARIES = ("-lSimTKsimbody", "-lSimTKmath", "-lSimTKcommon")


def compiled() -> str:
    """Nothing, or the reason why there is no program."""
    if shutil.which("c++") is None:
        return "no compiler c++"
    BUILD.mkdir(exist_ok=True)
    source = Path(__file__).with_suffix(".cpp")
    options = ("-O3", "-march=native", "-std=c++14", "-I/usr/include/simbody")
    command = ["c++", *options, "-o", PROGRAM, source, *LIBRARIES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    if "Simbody.h" in done.stderr and "No such file" in done.stderr:
        return "skipped: its headers are not installed (Debian: libsimbody-dev)"
    return f"did not compile: {done.stderr[-200:]}"


def accuracy(recorder: Recorder, n: int) -> None:
    """Its methods with error control, and the best of them with equal steps."""
    problem = compiled()
    if problem:
        recorder.missing("tree of ball joints", "s", problem)
        return
    rods = chain(n)
    accuracies = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
    curves = (
        ("RungeKuttaMerson", "accuracy", accuracies),
        ("RungeKuttaMerson", "dt", (5e-2, 2e-2, 1e-2, 5e-3)),
        ("RungeKutta3", "dt", (1e-2, 5e-3, 2.5e-3)),
    )
    for integrator, label, settings in curves:
        steps = "steps by error" if label == "accuracy" else "equal steps"
        variant = f"tree of ball joints, {integrator}, {steps}"
        for setting in settings:
            target, step = (setting, 0.0) if label == "accuracy" else (0.0, setting)
            arguments = [n, integrator, target, step, rods.t_end, min(3, recorder.repeats)]
            try:
                done = subprocess.run(
                    [PROGRAM, *map(str, arguments)],
                    capture_output=True,
                    text=True,
                    check=True,
                    timeout=max(5.0, recorder.seconds_left),
                )
            except (subprocess.SubprocessError, OSError) as failure:
                recorder.missing(variant, "s", f"{label}={setting:g}: {failure}")
                break
            seconds, *end = (float(x) for x in done.stdout.split())
            name = f"{label}={setting:g}"
            recorder.row(variant, "s", seconds, rods.error(np.array(end)), setting=name)


WORKS = {f"chain N={n} accuracy": lambda r, n=n: accuracy(r, n) for n in (10, 100, 1000)}


if __name__ == "__main__":
    tool_main("Simbody", "", WORKS)
