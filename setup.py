"""Builds the Cython core. Everything else about the package is in pyproject.toml.

KOORDSCHED_BUILD=checked builds with bounds checks, wraparound checks and division checks; KOORDSCHED_BUILD=sanitize adds
AddressSanitizer and UndefinedBehaviorSanitizer. Unset: the release build.
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
SANITIZE = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer"] if BUILD == "sanitize" else []

extensions = [
    Extension(
        f"koordsched._core.{source.stem}",
        [str(source)],
        include_dirs=[numpy.get_include()],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
        extra_compile_args=[*(["-O1", "-g"] if CHECKED else ["-O3"]), *SANITIZE],
        extra_link_args=SANITIZE,
    )
    for source in sorted(Path("koordsched/_core").glob("*.pyx"))
]

setup(
    # Each build has its own tree: distutils would otherwise take up another build's objects as its own.
    options={"build": {"build_base": f"build/{BUILD}"}},
    ext_modules=cythonize(
        extensions,
        build_dir=f"build/{BUILD}/cython",
        nthreads=os.cpu_count() or 1,
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
