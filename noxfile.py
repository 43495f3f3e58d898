"""Every task of the repository; `nox -l` lists them, `nox -s NAME -- ARGS` runs one.

Each package is tested in an environment that holds only what it declares, so a forgotten dependency fails here and not
at a user's.
Sessions use uv when it is installed and virtualenv otherwise.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import nox

nox.needs_version = ">=2024.10.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_missing_interpreters = True

ROOT = Path(__file__).parent
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
SOURCES = ["noxfile.py", "packages", "bench", "tools"]

NUMFMT, FPSAN, GEMM, LECTURES = (f"packages/{name}" for name in ("numfmt", "fpsan-tools", "tritongemm", "lectures"))
PACKAGES = [NUMFMT, FPSAN, GEMM, LECTURES]
#: (tests of, extras, packages installed beside it): each an environment of its own.
TEST_ENVIRONMENTS = {
    "numfmt": (NUMFMT, "", []),
    "numfmt-extras": (NUMFMT, "[fast,plot,dask]", []),
    "fpsan-tools": (FPSAN, "[triton]", [NUMFMT]),
    "tritongemm": (GEMM, "", [NUMFMT, FPSAN]),
    "lectures": (LECTURES, "[plot]", [NUMFMT]),
    "lectures-kernels": (LECTURES, "[kernels]", [NUMFMT, FPSAN, GEMM]),
}
TRITON_VERSIONS = ["3.8.0", "3.9.0"]


def group(name: str) -> list[str]:
    """The requirements of a dependency group of the root pyproject.toml."""
    return list(nox.project.dependency_groups(PROJECT, name))


def pip_settings() -> dict[str, str]:
    """What this machine gave pip (files and environment), in the names that uv reads, so that both resolve alike."""
    try:
        listed = subprocess.run(
            [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):  # an environment without pip has nothing to hand over
        return {}
    found: dict[str, str] = {}
    for line in listed.splitlines():  # later lines (site, environment) override earlier ones as in pip
        key, _, value = line.partition("=")
        found[key.rsplit(".", 1)[-1]] = value.strip().strip("'\"")
    # The environment wins over files, whatever the order of the list.
    for key in ("find-links", "index-url", "extra-index-url", "constraint"):
        found[key] = os.environ.get("PIP_" + key.upper().replace("-", "_"), found.get(key, ""))
    names = {"find-links": "UV_FIND_LINKS", "index-url": "UV_DEFAULT_INDEX", "constraint": "UV_CONSTRAINT"}
    settings = {names[key]: found[key] for key in names if found.get(key)}
    if "UV_FIND_LINKS" in settings:
        settings["UV_FIND_LINKS"] = ",".join(settings["UV_FIND_LINKS"].split())
    remote = [url for url in found.get("extra-index-url", "").split() if url.startswith("http")]
    if remote:
        settings["UV_INDEX"] = " ".join(remote)
    return {name: value for name, value in settings.items() if name not in os.environ}


def install(session: nox.Session, *requirements: str) -> None:
    """Install into the session's environment; uv is handed what pip was given."""
    env: Mapping[str, str] = pip_settings() if session.venv_backend == "uv" else {}
    session.install(*requirements, env=dict(env))


def local(path: str, extras: str = "") -> str:
    """The requirement string of a package of this repository."""
    return f"{ROOT / path}{extras}"


def has_cuda_gpu() -> bool:
    """Whether the driver's own tool sees a CUDA GPU (no torch needed to ask)."""
    tool = shutil.which("nvidia-smi")
    return bool(tool) and subprocess.run([tool, "-L"], capture_output=True, check=False).stdout.startswith(b"GPU")


#: A worker per core; the suites are many short tests.
PARALLEL = ["-n", "auto", "--dist", "worksteal"]


def run_pytest(session: nox.Session, *args: str) -> None:
    """Run pytest, a worker per core; no collected test (exit code 5) is a failure like any other."""
    session.run("python", "-m", "pytest", *PARALLEL, *args)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and formatting with Ruff; `-- --fix` repairs what it can."""
    install(session, *group("lint"))
    fix = "--fix" in session.posargs
    session.run("ruff", "check", *(["--fix"] if fix else []), *SOURCES)
    session.run("ruff", "format", *([] if fix else ["--check"]), *SOURCES)


@nox.session
def typecheck(session: nox.Session) -> None:
    """Check types with mypy in strict mode."""
    install(session, *group("typecheck"))
    session.run("mypy", *(f"{path}/src" for path in PACKAGES))


@nox.session
@nox.parametrize("suite", list(TEST_ENVIRONMENTS), ids=list(TEST_ENVIRONMENTS))
def tests(session: nox.Session, suite: str) -> None:
    """Run every package's CPU tests, each in an environment with only its declared dependencies."""
    path, extras, beside = TEST_ENVIRONMENTS[suite]
    references = {NUMFMT: group("peers"), FPSAN: group("llvm")}.get(path, [])
    install(session, *(local(other) for other in beside), local(path, extras), *group("test"), *references)
    run_pytest(session, f"{path}/tests", *session.posargs)


@nox.session
def torch_tests(session: nox.Session) -> None:
    """Run the tests that need torch, and numfmt's that need Triton, in one environment with all packages."""
    install(
        session,
        local(NUMFMT, "[torch]"), local(FPSAN, "[triton,torch]"), local(GEMM, "[torch]"), local(LECTURES),
        *group("test"), *group("peers"),
    )  # fmt: skip
    run_pytest(session, "-m", "torch and not gpu and not exhaustive", *session.posargs)
    run_pytest(session, f"{NUMFMT}/tests", "-m", "triton and not torch and not gpu and not exhaustive")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site strictly and check that every local link resolves and nothing loads from another host."""
    install_docs(session)
    build_site(session)


def install_docs(session: nox.Session) -> None:
    """The site's executed blocks and references call all four packages."""
    install(session, local(NUMFMT), local(FPSAN, "[triton]"), local(GEMM), local(LECTURES), *group("docs"))


def build_site(session: nox.Session) -> None:
    """Build `site/` and check it."""
    session.run("mkdocs", "build", "--strict", "--clean", env={"NO_MKDOCS_2_WARNING": "1"})
    session.run("python", "tools/check_site.py", "site")


@nox.session(default=False)
def docs_serve(session: nox.Session) -> None:
    """Serve the site locally and rebuild on changes."""
    install_docs(session)
    session.run("mkdocs", "serve", *session.posargs, env={"NO_MKDOCS_2_WARNING": "1"})


def build_distributions(session: nox.Session, out: Path) -> None:
    """Build every package: an sdist, and the wheel from that sdist."""
    install(session, *group("release"))
    for path in PACKAGES:
        # The build backend is among the session's requirements: eight isolated environments would cost minutes.
        session.run("python", "-m", "build", "--no-isolation", "--outdir", str(out), path, silent=True)


@nox.session
def build(session: nox.Session) -> None:
    """Build sdist and wheel of every package and check their contents; they stay in `dist/`."""
    out = ROOT / "dist"
    shutil.rmtree(out, ignore_errors=True)
    build_distributions(session, out)
    session.run("python", "tools/check_dist.py", str(out))


@nox.session
def wheels(session: nox.Session) -> None:
    """Install all built wheels together into a clean environment and run every package's tests against them."""
    out = Path(session.create_tmp()).absolute() / "dist"
    shutil.rmtree(out, ignore_errors=True)
    build_distributions(session, out)
    clean = Path(session.create_tmp()).absolute() / "clean"
    shutil.rmtree(clean, ignore_errors=True)
    python = clean / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    requirements = [str(path) for path in sorted(out.glob("*.whl"))] + group("test")
    if session.venv_backend == "uv":
        session.run(
            "uv", "venv", "--quiet", "--python", str(session.python or sys.executable), str(clean), external=True
        )
        session.run(
            "uv", "pip", "install", "--quiet", "--python", str(python), *requirements, external=True, env=pip_settings()
        )
    else:
        session.run("python", "-m", "venv", str(clean))
        session.run(str(python), "-m", "pip", "install", "--quiet", *requirements, external=True)
    session.run(str(python), "tools/check_installed.py", str(ROOT), external=True)
    session.run(str(python), "-m", "pytest", *PARALLEL, *session.posargs, external=True)


@nox.session(default=False)
def audit(session: nox.Session) -> None:
    """The main job: two GEMM kernels in (`-- mod:kernel_a file.py:kernel_b`), a reasoned verdict and a report out."""
    # torch is only needed to reach a GPU; a CPU audit must not cost its gigabytes.
    extras = "[torch]" if has_cuda_gpu() else ""
    if not no_venv(session):
        install(session, local(NUMFMT), local(FPSAN), local(GEMM, extras))
    session.run("python", "-m", "tritongemm", "audit", *session.posargs, env=no_venv_path(session))


def no_venv(session: nox.Session) -> bool:
    """Whether nox was told `--no-venv`: the torch and triton already there are used."""
    return session.venv_backend == "none"


def no_venv_path(session: nox.Session) -> dict[str, str]:
    """PYTHONPATH with the four source folders where nothing is installed."""
    if not no_venv(session):
        return {}
    path = [str(ROOT / package / "src") for package in PACKAGES]
    return {"PYTHONPATH": os.pathsep.join([*path, *filter(None, [os.environ.get("PYTHONPATH")])])}


@nox.session(default=False)
def gpu_tests(session: nox.Session) -> None:
    """Run the tests that need a CUDA GPU and compare them bit for bit with the CPU models; without a GPU this fails."""
    if not has_cuda_gpu():
        session.error("gpu_tests needs a CUDA GPU and `nvidia-smi -L` lists none: run it on a machine with one")
    if not no_venv(session):
        install(
            session,
            local(NUMFMT, "[torch]"), local(FPSAN, "[triton,torch]"), local(GEMM, "[torch]"), local(LECTURES),
            *group("test"),
        )  # fmt: skip
    shared = has_xdist(session)
    workers = ["-n", str(GPU_WORKERS), "--dist", "worksteal"] if shared else []
    # Over all packages: a few tests take a minute, and nobody waits for them package by package.
    folders = [f"{path}/tests" for path in PACKAGES[:3]]
    env = no_venv_path(session)
    # With a process on every core, libraries that start as many threads again spend their time waiting for each other.
    one_thread = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")} if shared else {}
    # Only then what others would disturb: under the memory checker every access to the GPU waits for theirs.
    runs = (("gpu and not alone", workers, [], one_thread), ("gpu and alone", [], ["-n", "0"] if shared else [], {}))
    chosen, given = marks_of(session.posargs)
    reports = []
    for marks, first, last, more in runs:
        reports.append(session.cache_dir / f"{marks.replace(' ', '-')}.xml")
        reports[-1].unlink(missing_ok=True)
        options = [*first, *given, *last, f"--junitxml={reports[-1]}"]
        both = f"{marks} and ({chosen})" if chosen else marks  # a second -m would run the same tests in both parts
        session.run(
            "python", "-m", "pytest", *folders, "-m", both, *options, env={**env, **more},
            success_codes=[0, SOME_FAILED, NONE_RAN],
        )  # fmt: skip
    suites = [suite for path in reports for suite in ElementTree.parse(path).iter("testsuite")]
    ran, failed, broken = (sum(int(suite.get(key, 0)) for suite in suites) for key in ("tests", "failures", "errors"))
    if not ran:
        session.error(f"{' '.join(session.posargs)} selects none of the GPU tests")
    if failed or broken:
        session.error(f"{failed + broken} of {ran} cases failed")
    session.log(f"{ran} cases; for bench/record_tests.py: {' '.join(map(str, reports))}")


def marks_of(arguments: list[str]) -> tuple[str, list[str]]:
    """The marks that pytest's arguments select by `-m`, and the other arguments."""
    chosen, others = "", []
    left = iter(arguments)
    for argument in left:
        if argument == "-m":
            chosen = next(left, "")
        elif argument.startswith("-m"):
            chosen = argument[2:].removeprefix("=")
        else:
            others.append(argument)
    return chosen, others


#: Most of the time of GPU tests is Triton's compiler, on the CPU; every worker holds GPU memory of its own.
GPU_WORKERS = max(1, min(12, (os.cpu_count() or 1) * 3 // 4))

#: Exit statuses of pytest: some tests failed (the others ran all the same); a selection is empty.
SOME_FAILED, NONE_RAN = 1, 5


def has_xdist(session: nox.Session) -> bool:
    """Whether the session's Python can share tests among processes; with `--no-venv` it may be any."""
    code = "import importlib.util; print(importlib.util.find_spec('xdist') is not None)"
    return str(session.run("python", "-c", code, silent=True)).strip() == "True"


#: Benchmarks of a GPU, with the torch that drives it.
GPU_BENCHMARKS = {"gemm", "gemm_overhead", "numfmt_rounding_gpu"}


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Run the benchmarks against their peers (`-- NAME ... OPTIONS` selects); results go to `bench/results/`."""
    names = {
        path.stem: path for path in sorted((ROOT / "bench").glob("*.py")) if not path.stem.startswith(("_", "record_"))
    }
    # Options follow the names, for they may have values that look like names.
    first = next((i for i, arg in enumerate(session.posargs) if arg.startswith("-")), len(session.posargs))
    asked, options = session.posargs[:first], session.posargs[first:]
    if unknown := [name for name in asked if name not in names]:
        session.error(f"no benchmark named {', '.join(unknown)}; there are {', '.join(names)}")
    wanted = asked or list(names)
    if not has_cuda_gpu() and (left_out := [name for name in wanted if name in GPU_BENCHMARKS]):
        said = f"{', '.join(left_out)}: no CUDA GPU here (`nvidia-smi -L` lists none)"
        if asked:
            session.error(said)
        session.warn(said)
        wanted = [name for name in wanted if name not in left_out]
    if not no_venv(session):
        extras = "[torch]" if has_cuda_gpu() else ""
        install(
            session,
            local(NUMFMT, "[fast,plot]"), local(FPSAN, "[triton]"), local(GEMM, extras), local(LECTURES),
            *group("peers"),
        )  # fmt: skip
    for name in wanted:
        session.run("python", str(names[name]), *options, env=no_venv_path(session))


@nox.session(default=False)
def lectures(session: nox.Session) -> None:
    """Run a lecture: `-- run rounding-and-accumulation --quick`; without arguments list them."""
    install(session, local(NUMFMT), local(FPSAN, "[triton]"), local(GEMM), local(LECTURES, "[plot]"))
    session.run("python", "-m", "numfmt_lectures", *(session.posargs or ["list"]))


@nox.session(default=False)
def exhaustive(session: nox.Session) -> None:
    """Run the full oracles (hours allowed)."""
    install(session, local(NUMFMT, "[fast]"), local(FPSAN, "[triton]"), local(GEMM), local(LECTURES))
    install(session, *group("test"), *group("peers"))
    run_pytest(session, "-m", "exhaustive", *session.posargs)


@nox.session(default=False)
@nox.parametrize("triton", TRITON_VERSIONS)
def matrix(session: nox.Session, triton: str) -> None:
    """Run the tests of fpsan-tools and tritongemm against every supported Triton."""
    install(
        session,
        local(NUMFMT),
        local(FPSAN, "[triton]"),
        local(GEMM),
        f"triton=={triton}",
        *group("test"),
        *group("llvm"),
    )
    run_pytest(session, f"{FPSAN}/tests", f"{GEMM}/tests", *session.posargs)


@nox.session(default=False)
def browser(session: nox.Session) -> None:
    """Build the site and test its pages in headless Chromium."""
    install_docs(session)
    install(session, *group("browser"))
    build_site(session)
    session.run("python", "tools/browser_tests.py", "site", *session.posargs)


@nox.session(default=False)
def minimums(session: nox.Session) -> None:
    """Run the tests with the oldest versions that the packages' requirements allow."""
    if session.venv_backend != "uv":
        session.error("minimums resolves the lowest versions with uv: `pip install uv` first")
    everything = [local(NUMFMT), local(FPSAN, "[triton]"), local(GEMM), local(LECTURES)]
    install(session, "--resolution", "lowest-direct", *everything, *group("test"))
    run_pytest(session, *session.posargs)


@nox.session(default=False)
def coverage(session: nox.Session) -> None:
    """Measure the CPU tests' line and branch coverage; the report goes to `htmlcov/`."""
    install(session, *(local(path) for path in PACKAGES), local(FPSAN, "[triton]"), *group("test"), *group("peers"))
    install(session, "coverage[toml]>=7.6")
    session.run("coverage", "run", "-m", "pytest", *session.posargs)
    session.run("coverage", "report")
    session.run("coverage", "html", "--quiet")


@nox.session(default=False)
def release(session: nox.Session) -> None:
    """Prepare a release: `-- PACKAGE VERSION` writes the changelog from its fragments and builds."""
    if len(session.posargs) != 2 or f"packages/{session.posargs[0]}" not in PACKAGES:
        names = ", ".join(path.removeprefix("packages/") for path in PACKAGES)
        session.error(f"release takes a package and a version: nox -s release -- PACKAGE VERSION; packages are {names}")
    package, version = session.posargs
    install(session, *group("release"))
    session.run("python", "tools/set_version.py", package, version)
    session.run("towncrier", "build", "--yes", "--config", f"packages/{package}/pyproject.toml", "--version", version,
                "--dir", f"packages/{package}")  # fmt: skip
    out = ROOT / "dist"
    shutil.rmtree(out, ignore_errors=True)
    build_distributions(session, out)
    session.run("python", "tools/check_dist.py", str(out))
    session.log(f"review the diff, commit it, then tag {package}-v{version}")


@nox.session(name="next", default=False)
def next_triton(session: nox.Session) -> None:
    """Try the newest Triton, also pre-releases and versions outside the supported range, to see what it breaks."""
    install(session, local(NUMFMT), local(FPSAN), *group("test"))
    install(session, "--upgrade", "--pre", "triton")
    install(session, "--no-deps", local(GEMM))
    run_pytest(session, f"{FPSAN}/tests", f"{GEMM}/tests", *session.posargs)
