"""Plain torch in JupyterLab: the cells that an engineer has already, with one line above them."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.lab.harness import LabServer, NotebookPage
from tests.lab.test_magics import written

pytestmark = pytest.mark.browser

CELLS = [
    "%load_ext nbgrad\nimport torch\n"
    "torch.manual_seed(0)\n"
    "layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)\n"
    "net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.TransformerEncoder(layer, 2), torch.nn.Linear(16, 1))\n"
    "optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)\n"
    "x, y = torch.randn(4, 6, 8), torch.randn(4, 6, 1)",
    "%%autograd\n"
    "for _ in range(5):\n"
    "    optimizer.zero_grad()\n"
    "    loss = torch.nn.functional.mse_loss(net(x), y)\n"
    "    loss.backward()\n"
    "    optimizer.step()\n",
    "%%autograd\nhidden = net[0](x).detach()\nloss = torch.nn.functional.mse_loss(net[2](hidden), y)\nloss.backward()",
    "%%autograd\nwith torch.no_grad():\n    net(x)",
    "%%autograd --anomaly\nloss = torch.log(net(x) - 1e6).mean()\nloss.backward()",
]


def test_a_program_of_torchs_is_drawn_explained_and_stopped_at_its_fault(
    lab: NotebookPage, lab_server: LabServer, tmp_path: Path
) -> None:
    lab.open(lab_server.add(written(tmp_path / "torchs.ipynb", CELLS)))
    lab.run_all()
    (error,) = lab.errors()
    assert "log made nan in the forward" in error
    views = lab.outputs("application/vnd.jupyter.widget-view+json")
    assert [cell for cell, _ in views] == [1, 2, 3, 4]
    said = [
        ("backward from loss, the last of 5", "History (5)"),
        ("cut off by detach()", "Findings"),
        ("but with gradients off", ""),
        ("log of a negative number", ""),
    ]
    for (cell, output), texts in zip(views, said, strict=True):
        view = lab.output(cell, output).get_by_test_id("nbgrad-view")
        lab.screenshot(f"torch_program_{cell}")
        for text in texts:
            expect(view).to_contain_text(text)
