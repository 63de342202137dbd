"""Write docs/parity.md, the page that says of every public name of torch.nn and torch.optim whether it is here.

Run it with all that is made from the code: python tools/write.py
"""

import inspect
import sys
from pathlib import Path
from types import ModuleType

import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # this checkout, also where nbgrad is not installed

from nbgrad import nn, optim  # noqa: E402

PAGE = ROOT / "docs" / "parity.md"

MODULES: dict[ModuleType, ModuleType] = {
    torch.nn: nn,
    torch.nn.init: nn.init,
    torch.nn.parallel: nn.parallel,
    torch.optim: optim,
    torch.optim.lr_scheduler: optim.lr_scheduler,
    torch.optim.swa_utils: optim.swa_utils,
}
"""torch's modules, each with nbgrad's module of the same purpose."""

MISSING = {
    "Container": "torch has deprecated it: `Module` does the same",
    "DataParallel": "for several devices in one process: use `DistributedDataParallel`, as torch advises",
    "LinearCrossEntropyOptions": "an option of one loss of torch: the number of parts in which it is computed",
    "NLLLoss2d": "torch has deprecated it: `NLLLoss` does the same",
    "SparseAdam": "accepts only sparse gradients; nbgrad's are dense",
    "data_parallel": "for several devices in one process, like `DataParallel`",
    "factory_kwargs": "a helper for the constructors of torch's own modules",
    "gather": "a part of `DataParallel`",
    "parallel_apply": "a part of `DataParallel`",
    "replicate": "a part of `DataParallel`",
    "scatter": "a part of `DataParallel`",
    "swap_in_optimizer_params_and_state": "for optimizers whose `step()` torch differentiates or compiles",
}
"""The names that are not here, and why."""

HEAD = """# Parity with torch

<!-- Written by tools/write.py from torch's modules and nbgrad's: change those instead. -->

nbgrad has **{share} of the public names** of torch {version}, {here} of {count}, in
{modules}.
They have torch's arguments, defaults, errors and `state_dict` keys. They compute torch's numbers, and
the tests compare them. Quantized modules are in other packages of torch, and are not counted. For functions see
[every op](ops.md).

nbgrad also has these modules, which torch does not have:
{extra}.

The same program gives the same numbers:

```python
import torch
import nbgrad

for lib in (torch, nbgrad):
    torch.manual_seed(0)
    model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.GELU(), lib.nn.Linear(4, 1))
    optimizer = lib.optim.Adam(model.parameters(), lr=0.1)
    x = lib.tensor([[1.0, 2.0, 3.0]])
    for _ in range(3):
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
    print(f"{{loss.item():.4f}}", list(model.state_dict()))
```

```text
0.2872 ['0.weight', '0.bias', '2.weight', '2.bias']
0.2872 ['0.weight', '0.bias', '2.weight', '2.bias']
```
"""


def names(module: ModuleType) -> list[str]:
    """The public classes and functions of one of torch's modules."""
    if hasattr(module, "__all__"):
        listed = [name for name in module.__all__ if not inspect.ismodule(getattr(module, name))]
        return sorted(listed, key=str.lower)
    found = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value))
    ]
    return sorted(found, key=str.lower)


def extra() -> list[str]:
    """The modules that nbgrad.nn has and torch.nn does not have."""
    return [
        name
        for name, value in vars(nn).items()
        if inspect.isclass(value) and issubclass(value, nn.Module) and not hasattr(torch.nn, name)
    ]


def page() -> str:
    """The text of the page."""
    every = {theirs: names(theirs) for theirs in MODULES}
    here = sum(name not in MISSING for found in every.values() for name in found)
    count = sum(map(len, every.values()))
    head = HEAD.format(
        share=f"{here / count:.1%}".replace("%", " %"),
        here=here,
        count=count,
        modules=", ".join(f"`{theirs.__name__}`" for theirs in MODULES),
        version=".".join(torch.__version__.split(".")[:2]),
        extra=", ".join(f"`{name}`" for name in extra()),
    )
    return "\n".join([head, *(section(theirs, found) for theirs, found in every.items())])


def section(theirs: ModuleType, found: list[str]) -> str:
    """One module as a table."""
    here = sum(name not in MISSING for name in found)
    lines = [f"## {theirs.__name__}", "", f"{here} of {len(found)}.", "", "| name | in nbgrad |", "|---|---|"]
    lines += [f"| `{name}` | {f'no: {MISSING[name]}' if name in MISSING else 'yes'} |" for name in found]
    return "\n".join([*lines, ""])
