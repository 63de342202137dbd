"""An op is written once: no list outside of the op table names rows, except lists of names that belong to others."""

import ast
from collections.abc import Iterator
from pathlib import Path

import nbgrad
from nbgrad.core.dispatch.table import OPS

ROOT = Path(nbgrad.__file__).parent

OTHERS = {
    "core/dispatch/formula.py": ("_NEUTRAL", "torch: names of arguments"),
    "core/graph/discrepancy.py": ("_ADDS _order", "torch: its functions that add, also those without a row"),
    "core/functional/gradient_edge.py": ("register_multi_grad_hook", "torch: values of its argument mode="),
    "core/interop/aten_functions.py": ("KERNELS", "torch: functions of torch._C._nn"),
    "core/interop/numpy_arrays.py": ("TENSORS_ONLY UFUNC_REDUCTIONS", "numpy: its ufuncs"),
    "core/symbolic/exports/page.py": ("_node", "torch: kernels of ATen, with the names of the page's kernels"),
    "core/symbolic/fusion.py": ("PRICES", "torch: the measured times of its kernels"),
    "core/symbolic/latex.py": ("_SIGNS", "torch: its functions in LaTeX, where no row called them"),
    "core/symbolic/lowering.py": ("_SAME", "the interpreter of nests: its operations"),
    "core/symbolic/nest/ir.py": (
        "UNARY COMPARISONS BINARY REDUCTIONS VIEWS apply",
        "the interpreter of nests: its operations",
    ),
    "core/symbolic/numbers.py": ("_SIGNS", "Python: functions of its module operator"),
    "core/symbolic/passes/dead_code.py": (
        "_REFUSES_NUMBERS",
        "torch: functions that raise an error for some numbers",
    ),
    "core/symbolic/passes/forms.py": ("ROUNDED SUMS sum_of", "torch: kernels that round alike in each loop; its sums"),
    "core/symbolic/replay.py": ("OPERATORS", "torch: its functions that a sign calls faster"),
    "core/symbolic/surroundings.py": ("_CALLED_BY_PYTHON", "Python: its operators"),
    "drawing/calls.py": (
        "_MAKERS _NAMES _SYMBOLS _binary _inferred _losses _of_several reduced",
        "other engines: their names of ops, and the operands and settings that they do not tell",
    ),
    "drawing/engines.py": ("_SYMBOLS", "other engines: the names of their ops and methods"),
    "drawing/faults.py": (
        "CONSTANT _KINKED _ROWS _UNARY _faults_of bounds",
        "none: the faults that students make in rules",
    ),
    "drawing/shares.py": ("_OWN_SUMS", "other engines: ops that sum over a broadcast themselves"),
    "drawing/value_faults.py": ("_ONE _TWO _WORDS _wrong_reductions", "none: the faults that students make in values"),
    "lab/engine_checks.py": ("_FUNCTIONS _OPS", "the student's engine: its ops"),
    "lab/lesson_02.py": ("_RULES _PARTS", "the lesson: names in its text"),
    "lab/lesson_03.py": ("_misjudged", "the lesson: names in its text"),
    "lab/lesson_06.py": ("_READY", "the lesson: what an answer may not use"),
    "lab/lesson_08.py": ("_RELUS", "the lesson: what an answer may use"),
    "lab/method.py": ("_HAS", "the student's engine: what it has already"),
    "masked.py": ("__all__", "torch: functions of torch.masked"),
    "nn/recurrent.py": ("__init__ forward", "torch: values of nonlinearity="),
    "nn/transformer.py": ("_activation", "torch: values of activation="),
    "core/engine/second_backward.py": ("_SUMS", "the source: how users add up losses"),
    "core/graph/shape_advice.py": ("_elementwise", "none: the ops that join a shortcut with its branch"),
    "core/engine/source_cuts.py": ("_CHOICES", "torch: methods in the source of the user"),
    "widgets/findings/checks.py": ("_OTHERS", "none: the ops that the rules for layers look at"),
    "widgets/findings/dimensions.py": (
        "_across _last_step _reshaped _weights",
        "torch and the source: how users mix rows",
    ),
    "widgets/findings/divergence.py": ("_REMEDIES", "none: what to do about the first bad number of an op"),
    "widgets/findings/examination.py": ("_SQUARES is_loss", "the source: how users write a loss by hand"),
    "widgets/findings/attention.py": ("_multiplies_first _shown _summed", "torch: products and masks of its attention"),
    "widgets/findings/loss_inputs.py": (
        "_is_chosen mistaken",
        "the source: how users normalize scores, and choose log-probabilities, by hand",
    ),
    "widgets/findings/shortcuts.py": ("_LINEAR _is_unmasked _pairs", "the source: how users write a loss of pairs"),
    "widgets/findings/outputs.py": (
        "_is_bootstrap _is_cut _is_log _own_target _rewarded _terms constant_terms likelihoods lone_softmax",
        "the source: how users write a target, a likelihood, a probability and the terms of a loss",
    ),
    "widgets/findings/vanishing.py": ("_why", "none: the functions that are constant along a dimension of 1"),
}
"""By the file: where its lists stand that may name what rows are called too, and whose names they are."""


def listed(node: ast.AST) -> list[ast.expr]:
    """The parts of a set, tuple or list, and the keys of a dict."""
    if isinstance(node, ast.Dict):
        return [key for key in node.keys if key is not None]
    return node.elts if isinstance(node, ast.Set | ast.Tuple | ast.List) else []


def names_rows(node: ast.AST) -> bool:
    """Whether a literal has two names of rows or more, and at least half of its texts are such names."""
    texts = [one.value for one in listed(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    rows = sum(text in OPS for text in texts)
    return rows >= 2 and 2 * rows >= len(texts)


def owners(node: ast.AST, owner: str = "") -> Iterator[str]:
    """For each literal that names rows: the function or the variable that it belongs to."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        owner = node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and not owner:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        owner = ast.unparse(target)
    if names_rows(node):
        yield owner
    for child in ast.iter_child_nodes(node):
        yield from owners(child, owner)


def found(text: str) -> set[str]:
    """The owners of all literals in a module that name rows."""
    return set(owners(ast.parse(text)))


def test_a_list_of_rows_is_found_in_any_form() -> None:
    assert found("_A = frozenset(('exp', 'log'))") == {"_A"}
    assert found("def f(op):\n    return op.name in {'relu', 'gelu', 'mine'}") == {"f"}
    assert found("B: dict[str, int] = {'relu': 1, 'gelu': 2}") == {"B"}
    assert found("C = {**dict.fromkeys(['sin', 'cos'], 1)}") == {"C"}
    assert not found("_D = ('exp', 'mine', 'yours')\n_E = ('exp',)")


def test_no_list_outside_of_the_table_names_rows() -> None:
    lists = {}
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        if not place.startswith("core/ops/") and (names := found(path.read_text(encoding="utf-8"))):
            lists[place] = names
    others = {place: set(names.split()) for place, (names, _) in OTHERS.items()}
    assert lists == others, "a fact of an op belongs on its row, or has to follow from one"
