"""The commands and their options; what they do is in the other modules."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    name="holonax",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Constrained multibody dynamics: run, check and compare mechanisms.",
    epilog=(
        "MODEL is a file (.toml, .json, .urdf, or .xml of MuJoCo) or the name of a ready mechanism "
        "(holonax examples). Begin with: holonax examples copy four_bar, then holonax run "
        "four_bar.toml. Exit status: 0 success, 1 a run did not reach its end, 2 wrong input, 130 "
        "interrupted."
    ),
)
examples_app = typer.Typer(help="Ready mechanisms: list them, or copy one as a model file.")
app.add_typer(examples_app, name="examples", rich_help_panel="Begin")

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model file, or a ready mechanism.")]
End = Annotated[float | None, typer.Option("--t-end", help="End of the run [s].")]
Step = Annotated[float | None, typer.Option("--dt", help="Equal steps of this length [s].")]
Rtol = Annotated[
    float | None, typer.Option("--rtol", help="Steps chosen by their error, at most this.")
]
Method = Annotated[
    str | None,
    typer.Option(
        "--method",
        help="auto, a formulation, an integrator, or both: Baumgarte/RK4. See holonax methods.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Another number: crank.mass=2, or L=0.7."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def drop_output() -> None:
    """Let what is still to be printed go nowhere: whoever reads has seen enough."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def told(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command, whose errors in our own words are told without a traceback, with status 2."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            code = command(*args, **kwargs)
        except BrokenPipeError:
            drop_output()
            raise typer.Exit(0) from None
        except (TypeError, ValueError, ImportError, OSError) as error:
            print(f"holonax: {error}", file=sys.stderr)
            raise typer.Exit(2) from None
        except KeyError as error:
            print(f"holonax: {error.args[0] if error.args else error}", file=sys.stderr)
            raise typer.Exit(2) from None
        raise typer.Exit(code or 0)

    return run


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version("holonax")
        except PackageNotFoundError:
            from holonax import __version__ as found
        print(f"holonax {found}")
        raise typer.Exit()


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    pass


@app.command(rich_help_panel="Run")
@told
def run(
    model: Model,
    t_end: End = None,
    dt: Step = None,
    rtol: Rtol = None,
    method: Method = None,
    formulation: Annotated[str | None, typer.Option(help="A formulation by name.")] = None,
    integrator: Annotated[str | None, typer.Option(help="An integrator by name.")] = None,
    change: Set = None,
    out: Annotated[
        list[Path] | None,
        typer.Option("--out", "-o", help="Write a table: .csv, .nc (netCDF) or .parquet."),
    ] = None,
    quantity: Annotated[
        list[str] | None,
        typer.Option("--quantity", help="What to write: A.angle, or a name=expression."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it: .png, .pdf or .svg.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> int:
    """Simulate a model, as its file says or as you say here.

    holonax run four_bar.toml --set coupler=0.55 --rtol 1e-8 --out motion.csv
    """
    from . import running

    opened = running.opened(model).changed(running.changes(change))
    options = running.method_options(method, formulation, integrator, dt, rtol)
    result = running.simulated(opened, t_end, options, quiet=quiet or as_json)
    return running.reported(result, opened, out or [], quantity or [], plot, quiet, as_json)


@app.command(rich_help_panel="Run")
@told
def check(
    model: Model,
    change: Set = None,
    png: Annotated[Path | None, typer.Option(help="Draw the joint graph to this file.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> int:
    """Read a model and say what it is: bodies, masses, mobility, redundancy, the joint graph."""
    from . import checking, running

    opened = running.opened(model).changed(running.changes(change))
    return checking.checked(opened, png, quiet, as_json)


@app.command(rich_help_panel="Run")
@told
def plot(
    model: Model,
    quantities: Annotated[
        list[str] | None, typer.Argument(help="Bodies or coordinates: coupler crank.angle")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help=".png, .pdf or .svg")] = Path("plot.png"),
    t_end: End = None,
    dt: Step = None,
    rtol: Rtol = None,
    method: Method = None,
    change: Set = None,
    quiet: Quiet = False,
) -> int:
    """Simulate a model and draw what it did."""
    from . import running

    opened = running.opened(model).changed(running.changes(change))
    options = running.method_options(method, None, None, dt, rtol)
    result = running.simulated(opened, t_end, options, quiet=quiet)
    running.drawn(result, out, quantities or None, opened.name)
    if not quiet:
        print(out)
    return 0 if result.success else 1


@app.command(rich_help_panel="Run")
@told
def view(
    model: Model,
    html: Annotated[
        Path | None, typer.Option(help="Write a page that plays from disk (the default).")
    ] = None,
    png: Annotated[Path | None, typer.Option(help="Write a picture.")] = None,
    gif: Annotated[Path | None, typer.Option(help="Write an animation.")] = None,
    mp4: Annotated[Path | None, typer.Option(help="Write a video.")] = None,
    at: Annotated[float | None, typer.Option(help="Time of the picture [s]; its end.")] = None,
    speed: Annotated[float, typer.Option(help="Seconds of the run in one of a film.")] = 1.0,
    live: Annotated[
        bool, typer.Option("--live", help="Open the page in a browser, until Ctrl-C.")
    ] = False,
    slider: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=LOW:HIGH", help="With --live: a number whose slider runs it again."
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="With --live: of this machine; 0: any.")] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="With --live: whether to open a window.")
    ] = True,
    t_end: End = None,
    dt: Step = None,
    rtol: Rtol = None,
    method: Method = None,
    change: Set = None,
    quiet: Quiet = False,
) -> int:
    """Simulate a model and see it move: a page, a picture, a film, or live with sliders.

    holonax view four_bar.toml --live --slider coupler=0.45:0.6

    None of the files needs a screen. Without any option it is a page, motion.html.
    """
    from . import running, viewing

    opened = running.opened(model).changed(running.changes(change))
    options = running.method_options(method, None, None, dt, rtol)
    if live:
        asked = [x for x in (html, png, gif, mp4) if x is not None]
        return viewing.shown_live(opened, t_end, options, slider or [], port, browser, asked)
    if slider:
        raise ValueError("view: --slider is for a page that runs the model again. Give --live too.")
    files = viewing.Files(html, png, gif, mp4, at, speed)
    return viewing.written(opened, t_end, options, files, quiet)


@app.command(rich_help_panel="Study")
@told
def compare(
    model: Model,
    methods: Annotated[
        str, typer.Option(help="Methods with commas between: RK4,Baumgarte/RK4,GeneralizedAlpha")
    ],
    t_end: End = None,
    dt: Annotated[float, typer.Option(help="The largest of the equal steps [s].")] = 0.01,
    rtol: Annotated[float, typer.Option(help="The largest of the tolerances.")] = 1e-4,
    levels: Annotated[int, typer.Option(help="Steps or tolerances tried, each finer.")] = 3,
    change: Set = None,
    plot: Annotated[Path | None, typer.Option(help="Draw work against precision.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The table as .csv.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> int:
    """Run a model by several methods and compare error, drift and time."""
    from . import running, studying

    opened = running.opened(model).changed(running.changes(change))
    settings = studying.Levels(dt, rtol, levels)
    return studying.compared(opened, methods, t_end, settings, plot, out, quiet, as_json)


@app.command(rich_help_panel="Study")
@told
def sweep(
    model: Model,
    vary: Annotated[
        list[str],
        typer.Option(metavar="NAME=FIRST:LAST:COUNT", help="Values of a number; may be repeated."),
    ],
    quantity: Annotated[
        list[str] | None, typer.Option("--quantity", help="What to write: A.angle, name=expression")
    ] = None,
    t_end: End = None,
    dt: Step = None,
    rtol: Rtol = None,
    method: Method = None,
    change: Set = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help=".csv, .nc, .parquet; .zarr for many runs at once"),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(help="So many samples between FIRST and LAST, not a grid.")
    ] = None,
    design: Annotated[str, typer.Option(help="Of samples: sobol or latin.")] = "sobol",
    seed: Annotated[int, typer.Option(help="Of samples.")] = 0,
    processes: Annotated[int | None, typer.Option(help="Processes of this machine.")] = None,
    dask: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on this cluster: tcp://host:8786")
    ] = None,
    quiet: Quiet = False,
) -> int:
    """Run a model for many values of its numbers; what it did at the end, least and most.

    holonax sweep four_bar.toml --vary crank.mass=1:3:50 --quantity C.reaction.force.x

    With --samples, --processes, --dask or a path .zarr, runs go many at a time into a dataset,
    which may be read while it grows; the same command again goes on where it was interrupted:

    holonax sweep four_bar --vary crank.mass=1:3 --samples 100000 --quantity rocker.angle
    """
    from . import running, studying

    opened = running.opened(model).changed(running.changes(change))
    options = running.method_options(method, None, None, dt, rtol)
    asked = samples is not None or processes is not None or dask is not None
    if asked or (out is not None and out.suffix == ".zarr"):
        from . import sweeping

        if out is not None and out.suffix != ".zarr":
            raise ValueError(f"--out {out}: many runs at once go into a folder such as runs.zarr.")
        if dask is not None and processes is not None:
            raise ValueError("--dask and --processes exclude each other. Leave one out.")
        return sweeping.swept(
            *(opened, vary, sweeping.Sampling(samples, design, seed), quantity or [], t_end),
            *(options, out or Path(f"{opened.name}.zarr")),
            *(dask if dask is not None else processes, quiet),
        )
    return studying.swept(opened, vary, quantity or [], t_end, options, out, quiet)


@examples_app.callback(invoke_without_command=True)
def examples(context: typer.Context) -> None:
    """Ready mechanisms: list them, or copy one as a model file."""
    if context.invoked_subcommand is None:
        from . import running

        running.list_examples()
        print("\nholonax run NAME simulates one; holonax examples copy NAME writes its file.")


@examples_app.command("copy")
@told
def copy(
    name: Annotated[str, typer.Argument(help="A ready mechanism.")],
    path: Annotated[
        Path | None, typer.Argument(help="Where to: a file .toml or .json, or a folder.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> int:
    """Write the model file of a ready mechanism."""
    from . import running

    print(running.copied(name, path, force))
    return 0


@app.command(rich_help_panel="Begin")
@told
def simulate(
    name: Annotated[str | None, typer.Argument(help="A ready mechanism; none: list them")] = None,
    t_end: End = None,
    dt: Step = None,
    rtol: Rtol = None,
    formulation: Annotated[str | None, typer.Option(help="see holonax methods")] = None,
    integrator: Annotated[str | None, typer.Option(help="see holonax methods")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it: .png, .pdf or .svg.")] = None,
) -> int:
    """Simulate a ready mechanism (as run does)."""
    from . import running

    if name is None:
        running.list_examples()
        print("\nholonax simulate NAME runs one of them.")
        return 0
    opened = running.ready(name)
    options = running.method_options(None, formulation, integrator, dt, rtol)
    result = running.simulated(opened, t_end, options, quiet=True)
    return running.reported(result, opened, [], [], plot, False, False)


@app.command(rich_help_panel="Begin")
@told
def methods(
    word: Annotated[str | None, typer.Argument(help="Only those whose text has this word")] = None,
) -> int:
    """List every legal pair of methods, with orders, drift and where they come from."""
    from holonax import methods as all_methods

    for method in all_methods():
        if word is None or word.lower() in str(method).lower():
            print(method)
    return 0


@app.command(rich_help_panel="Study")
@told
def papers(
    paper: Annotated[str | None, typer.Argument(help="A paper, or all; none: list them")] = None,
    out: Annotated[str, typer.Option(help="Folder of the reports.")] = "out/papers",
    quick: Annotated[bool, typer.Option("--quick", help="What takes seconds only.")] = False,
) -> int:
    """Recompute the tables and figures of a paper."""
    from holonax.papers import PAPERS, reproduce, write_index

    if paper is None:
        for name, title in PAPERS.items():
            print(f"{name:12} {title}")
        print("\nholonax papers NAME (or all) recomputes one and writes a report.")
        return 0
    reports = []
    for name in list(PAPERS) if paper == "all" else [paper]:
        report = reproduce(name, out=out, quick=quick)
        reports.append(report)
        where = Path(out) / name / "index.html"
        print(f"{name}: {report.verdicts()}; {report.seconds:.0f} s; {where}", flush=True)
    if len(reports) > 1:
        print(write_index(reports, out))
    return 0


@app.command(rich_help_panel="Begin")
@told
def schema() -> int:
    """Print the JSON schema of model files, for editors."""
    from holonax import io

    print(json.dumps(io.schema(), indent=1))
    return 0
