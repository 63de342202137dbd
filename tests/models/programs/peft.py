"""peft."""

from typing import Any

import torch
from peft import AdaLoraConfig, IA3Config, LoHaConfig, LoraConfig, PrefixTuningConfig, get_peft_model
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from tests.models.package import Package, Step

package = Package("peft")


def tuned(config: Any) -> Step:
    """A language model in which only the added parameters learn."""
    widths = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    net = get_peft_model(LlamaForCausalLM(LlamaConfig(**widths, vocab_size=40)), config)
    x = torch.randint(3, 40, (2, 7))
    return net.train(), lambda net: net(input_ids=x, labels=x, use_cache=False).loss


@package.step
def lora() -> Step:
    return tuned(LoraConfig(r=2, target_modules=["q_proj", "v_proj"], lora_dropout=0.1, task_type="CAUSAL_LM"))


@package.step
def dora() -> Step:
    return tuned(LoraConfig(r=2, target_modules=["q_proj", "v_proj"], use_dora=True, task_type="CAUSAL_LM"))


@package.step
def ada_lora() -> Step:
    return tuned(AdaLoraConfig(init_r=3, target_r=2, total_step=10, target_modules=["q_proj"], task_type="CAUSAL_LM"))


@package.step
def ia3() -> Step:
    parts = {"target_modules": ["k_proj", "down_proj"], "feedforward_modules": ["down_proj"]}
    return tuned(IA3Config(**parts, task_type="CAUSAL_LM"))


@package.step
def prefix() -> Step:
    return tuned(PrefixTuningConfig(num_virtual_tokens=2, task_type="CAUSAL_LM"))


@package.step
def hadamard() -> Step:
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    x, y = torch.randn(2, 1, 8, 8), torch.tensor([0, 2])
    return get_peft_model(net, LoHaConfig(r=2, target_modules=["0", "3"])), lambda net: nn.functional.cross_entropy(
        net(x), y
    )
