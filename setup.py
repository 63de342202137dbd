"""Compiles the hot part of the core where that is possible; everything else about the package is in pyproject.toml.

A module below ``nbgrad/core`` that has a ``.pxd`` file beside it is compiled from its Python source by Cython; one that
is written in C is compiled as it stands. Without Cython or without a C compiler the package is installed as plain
Python: nothing fails, and ``nbgrad doctor`` says so.
"""

import importlib.util
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path
from sysconfig import get_path

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

CORE = Path("nbgrad", "core")
ROOT = Path(__file__).parent.resolve()
# For modules written in C. Without fused multiply-adds every processor computes the same bits; sqrt sets no errno.
FLAGS_OF_C = ["-O3", "-ffp-contract=off", "-fno-math-errno", "-Wno-psabi"]

# Python's own flags are usually -O3 -g. Measured, they make nothing faster, but the compilation takes three times as
# long.
FLAGS = ["-O2", "-g0"]
# More compilers than this take more memory than a small machine has.
MOST = 4

# Versions of Cython that translate the core wrongly, each with what goes wrong.
BROKEN = {"3.3.0": "the loop of a comprehension over an attribute reads memory that nothing was written to"}

# nbgrad itself says how a source is fingerprinted: the package compares fingerprints when it is imported.
_spec = importlib.util.spec_from_file_location("compilation", ROOT / CORE / "compilation.py")
compilation = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(compilation)


def extensions():
    """The modules to compile. Without Cython or a compiler there are none, and the wheel fits any machine."""
    try:
        from Cython import __version__  # Cython may be missing
        from Cython.Build import cythonize
        from Cython.Compiler.Nodes import CClassDefNode
    except ImportError:
        sys.stderr.write("nbgrad: without Cython the core is not compiled\n")
        return []
    if __version__ in BROKEN:
        sys.stderr.write(f"nbgrad: with Cython {__version__} the core is not compiled: {BROKEN[__version__]}\n")
        return []
    if not compiles():
        sys.stderr.write("nbgrad: without a working C compiler the core is not compiled\n")
        return []
    modules, written_in_c = [], []
    for name in compilation.modules(ROOT / CORE):
        first, *others = [str(CORE / path.relative_to(ROOT / CORE)) for path in compilation.sources(ROOT / CORE, name)]
        if first.endswith(".c"):
            written_in_c.append(Extension(f"nbgrad.core.{name}", [first], depends=others))
        else:
            modules.append(Extension(f"nbgrad.core.{name}", [first], include_dirs=[str(CORE / "engine")]))
    keep_directives(CClassDefNode)
    # As in Python, annotations are for people and mypy: Cython ignores them. The classes themselves define how they are
    # copied and pickled.
    directives = {"annotation_typing": False, "auto_pickle": False}
    made = [*cythonize(modules, build_dir="build/cython", compiler_directives=directives, quiet=True), *written_in_c]
    for extension in made:
        extension.optional = True  # cythonize() drops it: without it a failing compiler would fail the installation
    return made


def keep_directives(node):
    """Make Cython keep a class's directives from its ``.pxd``: it forgets them where a ``.py`` defines the class."""
    analyse = node.analyse_declarations

    def analyse_declarations(self, env):
        declared = env.lookup_here(self.class_name)
        known = declared.type.scope.directives if declared and declared.is_type and declared.type.scope else {}
        analyse(self, env)
        kept = {name: known[name] for name in ("freelist", "no_gc") if known.get(name)}
        if kept:
            self.scope.directives = {**self.scope.directives, **kept}

    node.analyse_declarations = analyse_declarations


def compiles():
    """Whether there is a C compiler that finds Python's headers: it is given the smallest extension there can be."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "smallest.c")
        source.write_text("#include <Python.h>\nPyObject *PyInit_smallest(void) { return NULL; }\n")
        command = build_ext(Distribution({"ext_modules": [Extension("smallest", [str(source)])]}))
        command.build_lib = command.build_temp = folder
        command.include_dirs = [get_path("include")]
        command.ensure_finalized()
        try:
            command.run()
        except Exception as error:  # after any error the package works as plain Python
            sys.stderr.write(f"nbgrad: {error}\n")
            return False
        return True


class BuildAndSign(build_ext):
    """Compiles all modules or none. It records fingerprints of the sources, so that a later change is noticed."""

    def finalize_options(self):
        super().finalize_options()
        # pip cannot say how many compilers run at once.
        self.parallel = self.parallel or min(MOST, os.cpu_count() or 1)

    def build_extensions(self):
        # The longest first: at the end no compiler runs alone for long.
        self.extensions.sort(key=lambda extension: -sum(Path(source).stat().st_size for source in extension.sources))
        if self.compiler.compiler_type == "unix":
            # Later flags win, so the user's own flags come last.
            own = shlex.split(os.environ.get("CFLAGS", ""))
            for extension in self.extensions:
                written_in_c = (ROOT / extension.sources[0]).is_relative_to(ROOT / CORE)
                extension.extra_compile_args = [*FLAGS, *(FLAGS_OF_C if written_in_c else ()), *own]
        super().build_extensions()

    def run(self):
        super().run()
        folders = [Path(self.build_lib, CORE)]
        if self.inplace or self.editable_mode:
            folders.append(ROOT / CORE)
        for folder in folders:
            made = [folder / Path(self.get_ext_filename(one.name)).relative_to(CORE) for one in self.extensions]
            if made and all(file.exists() for file in made):
                compilation.sign(ROOT / CORE, folder)
            else:  # the modules depend on each other's memory layout
                for file in made:
                    file.unlink(missing_ok=True)


class BuildWithLessons(build_py):
    """Puts the lessons into the package: ``nbgrad lab`` copies them from there where no clone is."""

    def run(self):
        super().run()
        if self.editable_mode:  # the package is the clone's own
            return
        target = Path(self.build_lib, "nbgrad", "lab", "notebooks")
        for lesson in sorted(ROOT.glob("notebooks/*.ipynb")):
            self.mkpath(str(target))
            self.copy_file(str(lesson), str(target / lesson.name))


def description():
    """README.md for a package index, where relative links and pictures lead nowhere: they are taken out of the text."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"!\[[^\]]*\]\((?!\w+:)[^)]*\)\n+", "", text)
    return re.sub(r"\[([^\]]*)\]\((?!\w+:)[^)]*\)", r"\1", text)


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildAndSign, "build_py": BuildWithLessons},
    long_description=description(),
    long_description_content_type="text/markdown",
)
