"""The command line: what it lists, what it writes, and how it refuses."""

import subprocess
import sys

import pytest

import holonax as hx
from holonax import cli, papers


def test_papers_are_listed(capsys):
    assert cli.main(["papers"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in papers.PAPERS)


def test_a_paper_is_recomputed_into_a_folder(capsys, tmp_path):
    assert cli.main(["papers", "haug1997", "--quick", "--out", str(tmp_path)]) == 0
    assert "2 are ours only" in capsys.readouterr().out
    assert (tmp_path / "haug1997" / "index.html").exists()


def test_an_unknown_paper_is_one_line(capsys, tmp_path):
    assert cli.main(["papers", "nobody1900", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("holonax: papers: name='nobody1900' is not known. Choose one of")
    assert error.count("\n") == 1


def test_methods_are_listed_and_filtered(capsys):
    assert cli.main(["methods", "rattle"]) == 0
    (line,) = capsys.readouterr().out.strip().splitlines()
    assert "Index3" in line and "Rattle" in line


def test_no_command_shows_usage(capsys):
    with pytest.raises(SystemExit):
        cli.main([])
    assert "usage: holonax" in capsys.readouterr().err


def test_the_installed_command_says_its_version():
    run = subprocess.run(
        [sys.executable, "-m", "holonax.cli", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert hx.__version__ in run.stdout


@pytest.mark.parametrize(
    ("options", "method"),
    [
        (["--formulation", "Baumgarte"], "Baumgarte(10, beta=10) with Dopri5"),
        (["--integrator", "AdamsMoulton"], "passes=2) with AdamsMoulton"),
        (["--integrator", "VariableBDF"], "passes=2) with VariableBDF"),
        (["--integrator", "GeneralizedAlpha"], "passes=2) with GeneralizedAlpha"),
        (["--integrator", "Rattle"], "Index3('physical') with Rattle"),
        (["--integrator", "RK4", "--dt", "0.01"], "passes=2) with RK4"),
    ],
    ids=lambda x: "-".join(x).strip("-") if isinstance(x, list) else "",
)
def test_a_method_by_its_name_needs_no_more(options, method, capsys):
    """Required options, the other half of the pair and the steps have defaults."""
    assert cli.main(["simulate", "slider_crank", "--t-end", "0.1", *options]) == 0
    out = capsys.readouterr().out
    assert "success" in out and method in out


def test_every_method_has_defaults_on_the_command_line():
    from holonax.run.pairs import check_pair, usual_formulations, usual_integrators

    for kind, usual in (("formulation", usual_formulations()), ("integrator", usual_integrators())):
        for method in usual:
            options = hx.study.options_by_name(**{kind: type(method).__name__})
            check_pair(options["formulation"], options["integrator"])
            assert (options["dt"] is None) != (options["rtol"] is None)
            assert type(options["integrator"]).estimates_error or options["rtol"] is None


def test_an_unknown_method_is_one_line(capsys):
    assert cli.main(["simulate", "slider_crank", "--integrator", "RK5"]) == 2
    error = capsys.readouterr().err
    assert "no integrator 'RK5'" in error and "VariableBDF" in error and error.count("\n") == 1
