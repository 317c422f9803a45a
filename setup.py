"""Builds the Cython core. Everything else about the package is in pyproject.toml.

KOORDSCHED_BUILD=checked builds with checks of bounds and initialisation; KOORDSCHED_BUILD=sanitize adds AddressSanitizer and
UndefinedBehaviorSanitizer. Both are optimised no more than compiles fast, since tests wait for them. Unset: the release build.
"""

import os
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup

BUILD = os.environ.get("KOORDSCHED_BUILD", "release")
if BUILD not in {"release", "checked", "sanitize"}:
    raise SystemExit(f"KOORDSCHED_BUILD={BUILD}: expected release, checked or sanitize")

CHECKED = BUILD != "release"
OPTIMISATION = {"release": ["-O3", "-g0"], "checked": ["-Og", "-g0"], "sanitize": ["-O0", "-g1"]}[BUILD]
SANITIZE = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer"] if BUILD == "sanitize" else []
SHARED = "koordsched._core._shared"  # Cython's memoryview code, once for all modules: a third of the compile time
JOBS = os.cpu_count() or 1


def extension(name: str, source: str) -> Extension:
    return Extension(
        name,
        [source],
        include_dirs=[numpy.get_include()],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
        # No fused multiply-add: float scores must be those of plain IEEE operations on every machine.
        extra_compile_args=[*OPTIMISATION, "-ffp-contract=off", *SANITIZE],
        extra_link_args=SANITIZE,
    )


setup(
    # Each build has its own tree: distutils would otherwise take up another build's objects as its own.
    options={"build": {"build_base": f"build/{BUILD}"}, "build_ext": {"parallel": JOBS}},
    ext_modules=cythonize(
        [
            extension(SHARED, "koordsched/_core/_shared.c"),
            *(extension(f"koordsched._core.{source.stem}", str(source)) for source in sorted(Path("koordsched/_core").glob("*.pyx"))),
        ],
        shared_utility_qualified_name=SHARED,
        build_dir=f"build/{'checked' if CHECKED else 'release'}/cython",
        nthreads=JOBS,
        compiler_directives={
            "language_level": 3,
            "boundscheck": CHECKED,
            "wraparound": False,
            "initializedcheck": CHECKED,
            "cdivision": True,
            "embedsignature": True,
            "freethreading_compatible": False,
        },
    ),
)
