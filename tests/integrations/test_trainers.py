"""Trainings by other packages are recorded, and do not notice it: their parameters are equal to the bit."""

import json
import logging
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
import torch
from torch import nn

import nbgrad
from nbgrad.core.recorder.switches import follows
from tests.integrations.trainings import net
from tests.models.torchvision_ops import provide
from tests.run.commands import python

pytestmark = [
    pytest.mark.once,
    pytest.mark.rotated(2),
    pytest.mark.filterwarnings("default"),  # those of the packages are their own
]
lightning_is_there = pytest.mark.more("lightning")
transformers_is_there = pytest.mark.more("transformers")

provide()  # a torchvision without its C++ part is a part of some environments, and Lightning imports it


def rows() -> torch.utils.data.DataLoader[Any]:
    """Sixteen rows in batches of four."""
    generator = torch.Generator().manual_seed(1)
    data = torch.utils.data.TensorDataset(torch.randn(16, 4, generator=generator), torch.arange(16) % 3)
    return torch.utils.data.DataLoader(data, 4, shuffle=True)


class Heard:
    """The lines of a log, and the numbers that a writer gets."""

    def __init__(self, log: str) -> None:
        self.lines: list[str] = []
        self.values: list[tuple[dict[str, float], int]] = []
        self.handler = logging.Handler(logging.WARNING)
        self.handler.emit = lambda record: self.lines.append(record.getMessage())  # type: ignore[method-assign]
        self.logger = logging.getLogger(log)

    def __call__(self, values: dict[str, float], step: int) -> None:
        self.values.append((values, step))

    def __enter__(self) -> "Heard":
        self.logger.addHandler(self.handler)
        return self

    def __exit__(self, *_: object) -> None:
        self.logger.removeHandler(self.handler)


# Lightning.


def lightning_net(rate: float = 0.01, fails: bool = False) -> Any:
    import lightning

    class Classifier(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3))

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            x, y = batch
            if fails and self.global_step == 5:
                raise ValueError("of the program")
            loss = nn.functional.cross_entropy(self.net(x), y)
            self.log("loss", loss)
            return loss

        def validation_step(self, batch: Any, index: int) -> None:
            x, y = batch
            self.log("validation", nn.functional.cross_entropy(self.net(x), y))

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), rate)

    return Classifier()


def lightning_game() -> Any:
    import lightning

    class Game(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.automatic_optimization = False
            self.makes = nn.Linear(2, 4)
            self.judges = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(), nn.Linear(8, 1))

        def training_step(self, batch: Any, index: int) -> None:
            x, _ = batch
            first, second = self.optimizers()
            made = self.makes(torch.randn(len(x), 2))
            first.zero_grad()
            self.manual_backward(-self.judges(made).mean())
            first.step()
            second.zero_grad()
            self.manual_backward(self.judges(made.detach()).mean() - self.judges(x).mean())
            second.step()

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.makes.parameters(), 0.01), torch.optim.RMSprop(self.judges.parameters(), 0.01)

    return Game()


def fit(module: Any, folder: Path, callbacks: list[Any], resume: str | None = None, **settings: Any) -> Any:
    """Train by Lightning. The trainer, whose module is trained then."""
    import lightning

    settings = {"max_epochs": 2, "enable_checkpointing": False, "logger": False, **settings}
    trainer = lightning.Trainer(
        accelerator="cpu",
        default_root_dir=folder,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=callbacks,
        **settings,
    )
    torch.manual_seed(2)
    validation = rows() if module.automatic_optimization else None
    trainer.fit(module, rows(), validation, ckpt_path=resume)
    return trainer


def learned(module: nn.Module) -> list[torch.Tensor]:
    return [one.detach().clone() for one in module.parameters()]


@lightning_is_there
@pytest.mark.parametrize(
    ("make", "settings", "steps"),
    [
        (lightning_net, {"gradient_clip_val": 0.1, "val_check_interval": 2}, [*range(1, 9)]),
        (lightning_net, {"accumulate_grad_batches": 2, "precision": "bf16-mixed"}, [1, 2, 3, 4]),
        (lightning_game, {}, [*range(2, 17, 2)]),
    ],
    ids=["clipped", "accumulated in bfloat16", "several optimizers"],
)
def test_lightning_learns_the_same_and_its_findings_are_none(
    make: Callable[[], Any], settings: dict[str, Any], steps: list[int], tmp_path: Path
) -> None:
    from nbgrad.integrations import LightningCallback

    plain = make()
    fit(plain, tmp_path, [], **settings)
    module = make()
    with Heard("lightning.pytorch") as heard:
        callback = LightningCallback(tmp_path / "run", suffix=".nbgrad", writers=[heard], every=1)
        fit(module, tmp_path, [callback], **settings)
    assert all(map(torch.equal, learned(plain), learned(module)))
    assert [one for one in heard.lines if "nbgrad" in one] == []
    assert [step for _, step in heard.values] == steps
    names = {name.rpartition(".")[0] for name, _ in module.named_parameters()}
    assert {f"nbgrad/gradient_norm/{name}" for name in names} <= set(heard.values[0][0])
    assert {f"nbgrad/update_ratio/{name}" for name in names} <= set(heard.values[0][0])
    assert callback.graph.closed
    assert follows() == 0
    run: Any = nbgrad.load(tmp_path / "run")
    assert len(run) == 2
    assert run[-1].backwards == callback.graph.backwards


@lightning_is_there
def test_lightning_saves_and_resumes_and_its_logger_gets_the_norms(tmp_path: Path) -> None:
    from lightning.pytorch.loggers import CSVLogger

    from nbgrad.integrations import LightningCallback

    callback = LightningCallback(tmp_path / "pages", suffix=".txt", every=1)
    logger = CSVLogger(tmp_path, flush_logs_every_n_steps=1)
    first = fit(lightning_net(), tmp_path, [callback], logger=logger, enable_checkpointing=True)
    assert "nbgrad/gradient_norm/net.0" in (Path(logger.log_dir) / "metrics.csv").read_text()
    saved = first.checkpoint_callback.best_model_path
    assert saved
    graph = callback.graph
    fit(lightning_net(), tmp_path, [callback], resume=saved, max_epochs=3)
    assert callback.graph is not graph
    assert callback.graph.backwards == 4
    assert sorted(one.name for one in (tmp_path / "pages").iterdir()) == [f"epoch-000{i}.txt" for i in (1, 2, 3)]


@lightning_is_there
def test_lightning_that_stops_early_or_fails_is_recorded_no_longer(tmp_path: Path) -> None:
    from lightning.pytorch.callbacks import EarlyStopping

    from nbgrad.integrations import LightningCallback

    with Heard("lightning.pytorch") as heard:
        callback = LightningCallback(tmp_path / "early", suffix=".txt", every=1)
        fit(lightning_net(rate=1e-12), tmp_path, [EarlyStopping("loss", patience=1), callback], max_epochs=20)
    assert callback.graph.closed
    assert [one.rpartition(" [")[2] for one in heard.lines if "nbgrad" in one] == ["no change]"]

    callback = LightningCallback(tmp_path / "failed", suffix=".txt", every=1)
    with pytest.raises(ValueError, match="of the program"):
        fit(lightning_net(fails=True), tmp_path, [callback])
    assert callback.graph.closed
    assert callback.graph.ending.kind == "ValueError"
    assert follows() == 0
    assert "ValueError" in (tmp_path / "failed" / "epoch-0002.txt").read_text()


# transformers.


class Words(torch.utils.data.Dataset[Any]):
    """Eight sentences of seven words; a row that does not exist raises an error."""

    def __init__(self, last: int = 8) -> None:
        self.words = torch.randint(3, 40, (8, 7), generator=torch.Generator().manual_seed(1))
        self.last = last

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        if index >= self.last:
            raise KeyError(index)
        return {"input_ids": self.words[index], "labels": self.words[index]}


def llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    return LlamaForCausalLM(LlamaConfig(**sizes, vocab_size=40))


def lora() -> Any:
    from peft import LoraConfig, get_peft_model

    tuned = get_peft_model(llama(), LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    tuned.enable_input_require_grads()
    return tuned


def train(model: Any, folder: Path, callbacks: list[Any], resume: bool = False, last: int = 8, **settings: Any) -> Any:
    """Train by transformers."""
    import transformers

    settings = {"num_train_epochs": 2, "report_to": [], "save_strategy": "no", "eval_strategy": "epoch", **settings}
    arguments = transformers.TrainingArguments(
        str(folder), per_device_train_batch_size=2, use_cpu=True, disable_tqdm=True, learning_rate=1e-2, **settings
    )
    trainer = transformers.Trainer(
        model, arguments, train_dataset=Words(last), eval_dataset=Words(), callbacks=callbacks
    )
    trainer.train(resume_from_checkpoint=resume or None)
    return trainer


@transformers_is_there
@pytest.mark.parametrize(
    ("make", "settings", "steps"),
    [
        (llama, {}, [*range(1, 9)]),
        (llama, {"gradient_accumulation_steps": 2, "bf16": True}, [1, 2, 3, 4]),
        pytest.param(lora, {"gradient_checkpointing": True}, [*range(1, 9)], marks=pytest.mark.more("peft")),
    ],
    ids=["plain", "accumulated in bfloat16", "LoRA with checkpoints"],
)
def test_transformers_learns_the_same(
    make: Callable[[], Any], settings: dict[str, Any], steps: list[int], tmp_path: Path
) -> None:
    from nbgrad.integrations import TransformersCallback

    plain = make()
    train(plain, tmp_path, [], **settings)
    model = make()
    with Heard("transformers") as heard:
        callback = TransformersCallback(tmp_path / "run", suffix=".nbgrad", writers=[heard], every=1)
        train(model, tmp_path, [callback], **settings)
    assert all(map(torch.equal, learned(plain), learned(model)))
    assert [one for one in heard.lines if "[unreached]" in one or "[eval mode]" in one or "error" in one] == []
    assert [step for _, step in heard.values] == steps
    names = {name.rpartition(".")[0] for name, one in model.named_parameters() if one.requires_grad}
    assert {f"nbgrad/gradient_norm/{name}" for name in names} <= set(heard.values[0][0])
    assert callback.graph.closed
    assert follows() == 0
    assert len(nbgrad.load(tmp_path / "run")) == 2  # type: ignore[arg-type]


@transformers_is_there
def test_transformers_saves_and_resumes_and_its_reports_get_the_norms(tmp_path: Path) -> None:
    from nbgrad.integrations import TransformersCallback

    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    callback = TransformersCallback(tmp_path / "pages", suffix=".txt", every=1)
    train(llama(), tmp_path / "out", [callback], save_strategy="epoch", report_to=["tensorboard"])
    [events] = tmp_path.rglob("*tfevents*")
    found = EventAccumulator(str(events.parent))
    found.Reload()
    norms = found.Scalars("train/nbgrad/gradient_norm/lm_head")
    assert [one.step for one in norms] == [*range(1, 9)]
    train(llama(), tmp_path / "out", [callback], resume=True, num_train_epochs=3)
    assert callback.graph.backwards == 4
    assert sorted(one.name for one in (tmp_path / "pages").iterdir()) == [f"epoch-000{i}.txt" for i in (1, 2, 3)]


@transformers_is_there
def test_transformers_that_fails_is_recorded_no_longer(tmp_path: Path) -> None:
    from nbgrad.integrations import TransformersCallback

    callback = TransformersCallback(tmp_path / "pages", suffix=".txt")
    with pytest.raises(KeyError):
        train(llama(), tmp_path, [callback], last=5)
    torch.ones(2, requires_grad=True).sum().backward()
    assert callback.graph.closed
    assert follows() == 0

    with pytest.raises(KeyError):
        train(llama(), tmp_path, [callback], last=5)
    callback.close(sys.last_value if hasattr(sys, "last_value") else None)
    assert callback.graph.closed
    assert follows() == 0


# accelerate.


@pytest.mark.more("accelerate")
def test_accelerate_learns_the_same_and_its_trackers_get_the_norms(tmp_path: Path) -> None:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState
    from accelerate.tracking import GeneralTracker

    class Tracker(GeneralTracker):
        name, requires_logging_directory = "told", False

        def __init__(self) -> None:
            super().__init__()
            self.told: list[Any] = []

        tracker = property(lambda self: self.told)

        def store_init_configuration(self, values: Any) -> None:
            """Nothing is stored."""

        def log(self, values: Any, step: int | None = None, **_: Any) -> None:
            self.told.append((values, step))

    def run(recorded: bool) -> tuple[list[torch.Tensor], list[Any]]:
        AcceleratorState._reset_state(reset_partial_state=True)
        tracker = Tracker()
        accelerator = Accelerator(
            cpu=True, mixed_precision="bf16", gradient_accumulation_steps=2, log_with=[tracker], project_dir=tmp_path
        )
        accelerator.init_trackers("test")
        model = net()
        torch.manual_seed(2)
        model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1), rows())
        loop = nbgrad.watched(loader, model, writers=[accelerator], every=1) if recorded else loader
        for _ in range(2):
            for x, y in loop:
                with accelerator.accumulate(model):
                    accelerator.backward(nn.functional.cross_entropy(model(x), y))
                    optimizer.step()
                    optimizer.zero_grad()
        accelerator.end_training()
        return learned(model), tracker.told

    plain, silent = run(False)
    recorded, told = run(True)
    AcceleratorState._reset_state(reset_partial_state=True)
    assert all(map(torch.equal, plain, recorded))
    assert silent == []
    assert [step for _, step in told] == [2, 4, 6, 8]
    assert {"nbgrad/loss", "nbgrad/gradient_norm/0", "nbgrad/update_ratio/2"} <= set(told[0][0])
    assert follows() == 0


# Weights & Biases.


def records_in(file: bytes) -> Iterator[bytes]:
    """The records of a file of Weights & Biases: after seven bytes, a log of LevelDB in blocks of 32 KiB."""
    at, begun = 7, b""
    while at + 7 <= len(file):
        length, kind = struct.unpack_from("<HB", file, at + 4)
        begun += file[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part of it
            yield begun
            begun = b""
        if (left := -at % (1 << 15)) < 7:
            at += left


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The rows of the one run that was kept in a folder. A process of its own writes them, also after the run."""
    from wandb.proto.wandb_internal_pb2 import Record

    (file,) = folder.glob("wandb/offline-run-*/*.wandb")
    kinds, until = dict[str, list[Any]](), monotonic() + 30
    while "exit" not in kinds and monotonic() < until:
        sleep(0.05)
        kinds = {}
        for record in map(Record.FromString, records_in(file.read_bytes())):
            kinds.setdefault(record.WhichOneof("record_type"), []).append(record)
    return [
        {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in one.history.item}
        for one in kinds["history"]
    ]


@pytest.mark.more("wandb")
@pytest.mark.parametrize("own", ["each step", "each epoch, by its number", "nothing"])
def test_a_run_of_weights_and_biases_has_the_norms_beside_what_the_program_logs(
    tmp_path: Path, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import wandb

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    model, optimizer = (made := net()), torch.optim.SGD(made.parameters(), 0.1)
    with wandb.init(project="test", dir=tmp_path) as run:
        writer = run if own != "nothing" else lambda values, step: run.log({"nbgrad/step": step, **values})
        for epoch in range(2):
            for x, y in nbgrad.watched(list(rows()), model, writers=[writer], every=1):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                if own == "each step":
                    run.log({"mine": loss.item()})
            if own == "each epoch, by its number":
                run.log({"mine": loss.item()}, step=epoch)
    found = rows_of(tmp_path)
    mine = [one["mine"] for one in found if "mine" in one]
    theirs = [one for one in found if "nbgrad/loss" in one]
    assert len(mine) == {"each step": 8, "each epoch, by its number": 2, "nothing": 0}[own]
    assert all({"nbgrad/gradient_norm/0", "nbgrad/update_ratio/2"} <= set(one) for one in theirs)
    if own == "each step":  # the numbers of a step join the row that the program logs after the next one
        assert [one["nbgrad/step"] for one in theirs] == [*range(1, 9)]
        assert [one["nbgrad/loss"] for one in theirs] == pytest.approx(mine)
    else:  # a row with a number of its own is open until the next one, so it has the numbers of the next epoch
        assert [one["nbgrad/step"] for one in theirs] == ([8] if own != "nothing" else [*range(1, 9)])


LAUNCHED = """
import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
torch.manual_seed(accelerator.process_index)
net = torch.nn.Linear(3, 2)
net, optimizer = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))
for step in range(2):
    optimizer.zero_grad()
    accelerator.backward(net(torch.randn(4, 3)).pow(2).mean())
    optimizer.step()
print(f"rank {accelerator.process_index} of {accelerator.num_processes}\\n", end="", flush=True)
accelerator.end_training()
"""


@pytest.mark.more("accelerate")
def test_accelerate_launches_the_command_and_rank_0_reports_the_users_line(tmp_path: Path) -> None:
    (tmp_path / "launched.py").write_text(LAUNCHED)
    processes = ("--multi_gpu", "--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no")
    launch = ("-m", "accelerate.commands.launch", *processes, "--dynamo_backend", "no", "-m", "nbgrad")
    result = python(*launch, "run", "--save", "run.txt", "launched.py", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == ["rank 0 of 2", "rank 1 of 2"]
    assert result.stderr.count("nbgrad: launched.py, 2 steps (2 backwards, all recorded) in ") == 1
    assert "  launched.py:11\n" in result.stderr
    assert (tmp_path / "run.txt").exists()
