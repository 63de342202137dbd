"""Other courses in which students meet automatic differentiation: what their own pages and repositories say.

Each fact was read in the version of the repository that ``version`` names, or on the page that ``read`` names. "–"
means that these do not say it.
"""

from typing import NamedTuple


class OtherCourse(NamedTuple):
    """A course beside ours.

    Attributes:
        name: as it calls itself.
        read: the addresses at which the facts were read.
        version: the commit of each repository that was read.
        facts: by the rows of the table.
    """

    name: str
    read: tuple[str, ...]
    version: str
    facts: dict[str, str]


ROWS = ("engine", "trains", "exercises", "grading", "picture of the graph")
"""The rows of the table, in order."""

OTHERS = (
    OtherCourse(
        "Zero to Hero, with micrograd",
        ("https://github.com/karpathy/nn-zero-to-hero", "https://github.com/karpathy/micrograd"),
        "73c3fcc, c911406",
        {
            "engine": "numbers only; typed along with a video",
            "trains": "two moons; names, letter by letter; a GPT",
            "exercises": "in the descriptions of 8 videos; one video is an exercise",
            "grading": "–",
            "picture of the graph": "drawn by graphviz",
        },
    ),
    OtherCourse(
        "MiniTorch (Cornell Tech)",
        ("https://minitorch.github.io", "https://github.com/minitorch/minitorch"),
        "52a178a, 7d35d59",
        {
            "engine": "by the students: numbers, tensors, kernels for CPU and CUDA",
            "trains": "points in a plane; MNIST; sentiment of sentences",
            "exercises": "25 tasks in 5 modules",
            "grading": "tests of each task, GitHub Classroom",
            "picture of the graph": "in a Streamlit app, with the training",
        },
    ),
    OtherCourse(
        "Deep Learning Systems, needle (CMU 10-414)",
        ("https://dlsyscourse.org", *(f"https://github.com/dlsyscourse/hw{number}" for number in range(5))),
        "6486205, 6bc4389, f4c9945, c8aa3af, f12d0b7",
        {
            "engine": "by the students: tensors, kernels for CPU and CUDA",
            "trains": "MNIST; CIFAR-10; a word language model on Penn Treebank",
            "exercises": "34 questions and parts in 5 homeworks",
            "grading": "tests, and a server (mugrade)",
            "picture of the graph": "–",
        },
    ),
    OtherCourse(
        "TinyTorch (Harvard)",
        ("https://github.com/MLSysBook/TinyTorch",),
        "02364f8",
        {
            "engine": "by the students: tensors, on numpy",
            "trains": "XOR; MNIST; CIFAR-10, 75 % as the goal; a small GPT",
            "exercises": "137 marked solutions in 20 modules",
            "grading": "nbgrader, through a command of its own",
            "picture of the graph": "–",
        },
    ),
    OtherCourse(
        "Dive into Deep Learning",
        ("https://d2l.ai", "https://github.com/d2l-ai/d2l-en"),
        "23d7a5a",
        {
            "engine": "none: it uses PyTorch, MXNet, JAX or TensorFlow",
            "trains": "Fashion-MNIST; translation; BERT; and many more",
            "exercises": "616 in 160 sections",
            "grading": "–",
            "picture of the graph": "drawings in the text",
        },
    ),
    OtherCourse(
        "Understanding Deep Learning, the notebooks",
        ("https://udlbook.github.io/udlbook", "https://github.com/udlbook/udlbook"),
        "a8fe82b",
        {
            "engine": "none; the backward of one network by hand",
            "trains": "MNIST-1D, MNIST, small examples of each chapter",
            "exercises": "332 lines with a TODO in 69 notebooks",
            "grading": "–",
            "picture of the graph": "figures that a reader can change",
        },
    ),
)
