"""A recorded program keeps its results, its output, its warnings, its errors, its files and torch itself.

The programs are those of public notebooks in small, one family in each file of ``programs``:

- ``training``: loops, all optimizers, schedulers, clipping, EMA and SWA, closures, frozen layers, optimizers in hooks
- ``generative``: GAN, gradient penalty, VAE, flows, diffusion, style, adversarial examples, policy gradients, DQN
- ``sequences``: RNN by hand, packed sequences, translation, GPT, attention visualised, transformers with all masks, CTC
- ``tools``: compile, export, fx, jit, vmap, AMP, checkpoints, files, DataLoader, DDP, DTensor, profiler, meta, threads
- ``errors``: warnings and errors that are collected, printed, caught, or end the program
- ``tensors``: nested, sparse, masked, complex, quantised, views, hooks, subclasses, modes, higher order, numpy, linalg
- ``notebooks``: progress bars, plots as arrays, widgets of the shell, helper functions, interactive habits
- ``modules``: every module of ``torch.nn`` in train and eval, under grad, no_grad and inference_mode, with all masks
"""

from collections.abc import Iterator

import pytest

from tests.recorder.unnoticed.harness import WAYS, Servers, compared, servers, ways_of
from tests.recorder.unnoticed.registry import PROGRAMS, Program, load

ALL = load()
WRITTEN = [name for name in ALL if not name.startswith("modules.")]
GENERATED = [name for name in ALL if name.startswith("modules.")]


@pytest.fixture(scope="module")
def processes() -> Iterator[Servers]:
    with servers() as started:
        yield started


@pytest.mark.sampled(48)
@pytest.mark.parametrize("name", WRITTEN)
def test_a_program_does_not_notice_that_it_is_recorded(name: str, processes: Servers) -> None:
    assert not processes.differences(ALL[name], ways_of(ALL[name], WAYS))


@pytest.mark.sampled(128)
@pytest.mark.parametrize("name", GENERATED)
def test_a_module_does_not_notice_that_it_is_recorded(name: str, processes: Servers) -> None:
    assert not processes.differences(ALL[name], ways_of(ALL[name], WAYS))


def test_there_are_programs_of_all_families() -> None:
    families = {name.partition(".")[0] for name in ALL}
    assert families == {"errors", "generative", "modules", "notebooks", "sequences", "tensors", "tools", "training"}
    assert len(WRITTEN) >= 150


@pytest.mark.parametrize("difference", ["values", "printed", "warning", "raised", "file", "object", "random", "stride"])
def test_the_harness_finds_each_kind_of_difference(difference: str, processes: Servers) -> None:
    # The program asks whether nbgrad has been imported, as no program should.
    program = ALL["training.by_hand"]
    other = Program(f"{difference}", "", program.run, program.warm, cell=False)
    assert other.name not in PROGRAMS
    plain = processes.run(program, ["plain"])["plain"]
    changed = {
        "values": {"result[0] values": "[1.0]"},
        "printed": {"stdout": "w 1\n"},
        "warning": {"warning 0": "UserWarning"},
        "raised": {"error": "ValueError"},
        "file": {"file a.pt": "1"},
        "object": {"object torch.nn.Module.__call__": "replaced"},
        "random": {"random of torch": ""},
        "stride": {"result[0] stride": "(2,)"},
    }[difference]
    assert compared(plain, plain) == []
    told = compared(plain, {**plain, **changed})
    assert len(told) == 1
    assert told[0].startswith(next(iter(changed)))
