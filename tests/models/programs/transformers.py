"""transformers."""

import tempfile
from typing import Any

import torch
import transformers
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from tests.models.package import Package, Step

package = Package("transformers")

WIDTHS: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 40,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
}
LLAMA: dict[str, Any] = {**WIDTHS, "num_key_value_heads": 1, "head_dim": 8, "bos_token_id": 1, "eos_token_id": 2}


def words(batch: int = 2, length: int = 7) -> torch.Tensor:
    """Words that are no padding."""
    return torch.randint(3, 40, (batch, length))


def language(net: nn.Module) -> Step:
    """A language model whose labels are its own input."""
    x = words()
    return net.train(), lambda net: net(input_ids=x, labels=x, use_cache=False).loss


def masked(net: nn.Module) -> Step:
    """The same for a model without a cache, with padding."""
    x, mask = words(), torch.ones(2, 7, dtype=torch.long)
    mask[0, 5:] = 0
    return net.train(), lambda net: net(input_ids=x, attention_mask=mask, labels=x).loss


def pictures(net: nn.Module, size: int = 32) -> Step:
    """A model that says what is in a picture."""
    x, y = torch.randn(2, 3, size, size), torch.tensor([1, 0])
    return net.train(), lambda net: net(pixel_values=x, labels=y).loss


def model(kind: str, config: str, **settings: Any) -> PreTrainedModel:
    """The model class ``kind`` with a configuration of the class ``config``. The default attention is the plain one."""
    made: PreTrainedConfig = getattr(transformers, config)(**settings)
    return getattr(transformers, kind)(made)


# Language.


@package.step
def bert() -> Step:
    return masked(model("BertForMaskedLM", "BertConfig", **WIDTHS))


@package.step
def bert_eager() -> Step:
    return masked(model("BertForMaskedLM", "BertConfig", **WIDTHS, attn_implementation="eager"))


@package.step
def bert_classes() -> Step:
    x, y = words(), torch.tensor([1, 0])
    net = model("BertForSequenceClassification", "BertConfig", **WIDTHS)
    return net.train(), lambda net: net(input_ids=x, labels=y).loss


@package.step
def roberta() -> Step:
    return masked(model("RobertaForMaskedLM", "RobertaConfig", **WIDTHS))


@package.step
def distilbert() -> Step:
    net = model(
        "DistilBertForMaskedLM", "DistilBertConfig", dim=16, n_layers=2, n_heads=2, hidden_dim=32, vocab_size=40
    )
    return masked(net)


@package.step
def albert() -> Step:
    return masked(model("AlbertForMaskedLM", "AlbertConfig", **WIDTHS, embedding_size=8))


@package.step
def electra() -> Step:
    return masked(model("ElectraForMaskedLM", "ElectraConfig", **WIDTHS, embedding_size=8))


@package.step
def deberta() -> Step:
    settings = {**WIDTHS, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "max_relative_positions": 8}
    return masked(model("DebertaV2ForMaskedLM", "DebertaV2Config", **settings))


@package.step
def modern_bert() -> Step:
    settings = {**WIDTHS, "cls_token_id": 1, "sep_token_id": 2, "local_attention": 4, "global_attn_every_n_layers": 2}
    return masked(model("ModernBertForMaskedLM", "ModernBertConfig", **settings))


@package.step
def gpt2() -> Step:
    return language(
        model("GPT2LMHeadModel", "GPT2Config", n_embd=16, n_layer=2, n_head=2, vocab_size=40, n_positions=16)
    )


@package.step
def gpt_neox() -> Step:
    return language(model("GPTNeoXForCausalLM", "GPTNeoXConfig", **WIDTHS))


@package.step
def gptj() -> Step:
    return language(model("GPTJForCausalLM", "GPTJConfig", n_embd=16, n_layer=1, n_head=2, vocab_size=40, rotary_dim=4))


@package.step
def opt() -> Step:
    return language(model("OPTForCausalLM", "OPTConfig", **WIDTHS, ffn_dim=32, word_embed_proj_dim=16))


@package.step
def bloom() -> Step:
    return language(model("BloomForCausalLM", "BloomConfig", hidden_size=16, n_layer=1, n_head=2, vocab_size=40))


@package.step
def llama() -> Step:
    return language(model("LlamaForCausalLM", "LlamaConfig", **LLAMA))


@package.step
def llama_checkpointed() -> Step:
    net = model("LlamaForCausalLM", "LlamaConfig", **LLAMA)
    net.gradient_checkpointing_enable()
    return language(net)


@package.step
def mistral() -> Step:
    return language(model("MistralForCausalLM", "MistralConfig", **LLAMA, sliding_window=4))


@package.step
def qwen() -> Step:
    return language(model("Qwen3ForCausalLM", "Qwen3Config", **LLAMA))


@package.step
def gemma() -> Step:
    return language(model("Gemma3ForCausalLM", "Gemma3TextConfig", **LLAMA, sliding_window=4))


@package.step
def phi() -> Step:
    return language(model("PhiForCausalLM", "PhiConfig", **WIDTHS))


@package.step
def mixtral() -> Step:
    return language(
        model("MixtralForCausalLM", "MixtralConfig", **LLAMA, num_local_experts=4, output_router_logits=True)
    )


@package.step
def qwen_experts() -> Step:
    settings = {**LLAMA, "moe_intermediate_size": 16, "num_experts": 4, "num_experts_per_tok": 2}
    return language(model("Qwen3MoeForCausalLM", "Qwen3MoeConfig", **settings))


@package.step
def mamba() -> Step:
    return language(
        model("MambaForCausalLM", "MambaConfig", hidden_size=16, num_hidden_layers=2, vocab_size=40, state_size=4)
    )


@package.step
def rwkv() -> Step:
    return language(model("RwkvForCausalLM", "RwkvConfig", hidden_size=16, num_hidden_layers=2, vocab_size=40))


@package.step
def t5() -> Step:
    net = model(
        "T5ForConditionalGeneration",
        "T5Config",
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        vocab_size=40,
        decoder_start_token_id=0,
    )
    return masked(net)


@package.step
def bart() -> Step:
    widths = {
        f"{part}_{name}": size
        for part in ("encoder", "decoder")
        for name, size in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 32))
    }
    return masked(model("BartForConditionalGeneration", "BartConfig", d_model=16, vocab_size=40, **widths))


# Pictures, sound, series.


@package.step
def vit() -> Step:
    return pictures(model("ViTForImageClassification", "ViTConfig", **{**WIDTHS, "image_size": 32, "patch_size": 16}))


@package.step
def swin() -> Step:
    settings = {
        "image_size": 32,
        "patch_size": 4,
        "embed_dim": 8,
        "depths": [1, 2],
        "num_heads": [1, 2],
        "window_size": 4,
    }
    return pictures(model("SwinForImageClassification", "SwinConfig", **settings))


@package.step
def convnext() -> Step:
    return pictures(
        model("ConvNextForImageClassification", "ConvNextConfig", hidden_sizes=[8, 16], depths=[1, 1], num_stages=2)
    )


@package.step
def resnet() -> Step:
    return pictures(
        model("ResNetForImageClassification", "ResNetConfig", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1])
    )


@package.step
def clip() -> Step:
    tower = {name: size for name, size in WIDTHS.items() if name not in ("vocab_size", "max_position_embeddings")}
    net = model(
        "CLIPModel",
        "CLIPConfig",
        text_config={**WIDTHS, "eos_token_id": 39},
        vision_config={**tower, "image_size": 32, "patch_size": 16},
        projection_dim=8,
    )
    x, images = words(), torch.randn(2, 3, 32, 32)
    return net.train(), lambda net: net(input_ids=x, pixel_values=images, return_loss=True).loss


@package.step
def segformer() -> Step:
    net = model(
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        hidden_sizes=[8, 8, 16, 16],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 1, 2, 2],
        decoder_hidden_size=16,
        num_labels=3,
    )
    x, y = torch.randn(1, 3, 32, 32), torch.randint(0, 3, (1, 32, 32))
    return net.train(), lambda net: net(pixel_values=x, labels=y).loss


@package.step
def wav2vec() -> Step:
    net = model(
        "Wav2Vec2ForCTC",
        "Wav2Vec2Config",
        **{
            **WIDTHS,
            "conv_dim": (8, 8),
            "conv_stride": (5, 2),
            "conv_kernel": (10, 3),
            "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 4,
            "num_conv_pos_embedding_groups": 2,
            "mask_time_prob": 0.0,
        },
    )
    x, y = torch.randn(2, 400), torch.randint(3, 40, (2, 4))
    return net.train(), lambda net: net(input_values=x, labels=y).loss


@package.step
def whisper() -> Step:
    widths = {
        f"{part}_{name}": size
        for part in ("encoder", "decoder")
        for name, size in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 32))
    }
    net = model(
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        d_model=16,
        vocab_size=40,
        num_mel_bins=8,
        max_source_positions=10,
        max_target_positions=12,
        decoder_start_token_id=1,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        **widths,
    )
    x, y = torch.randn(2, 8, 20), words(2, 5)
    return net.train(), lambda net: net(input_features=x, labels=y).loss


@package.step
def time_series() -> Step:
    settings = {
        "context_length": 16,
        "patch_length": 4,
        "patch_stride": 4,
        "prediction_length": 4,
        "d_model": 8,
        "num_input_channels": 2,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "ffn_dim": 16,
    }
    net = model("PatchTSTForPrediction", "PatchTSTConfig", **settings)
    x, y = torch.randn(2, 16, 2), torch.randn(2, 4, 2)
    return net.train(), lambda net: net(past_values=x, future_values=y).loss


# Training.


class Sentences(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Words, and the same words as labels."""

    def __init__(self) -> None:
        self.words = words(8)

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.words[index], "labels": self.words[index]}


def train(net: PreTrainedModel, **settings: Any) -> nn.Module:
    """Train ``net`` with the trainer of the package."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder,
            num_train_epochs=2,
            per_device_train_batch_size=4,
            report_to=[],
            save_strategy="no",
            use_cpu=True,
            disable_tqdm=True,
            logging_strategy="no",
            **settings,
        )
        transformers.Trainer(net, arguments, train_dataset=Sentences()).train()
    return net


@package.training
def trainer() -> nn.Module:
    return train(model("LlamaForCausalLM", "LlamaConfig", **LLAMA))


@package.training
def trainer_accumulates() -> nn.Module:
    return train(model("LlamaForCausalLM", "LlamaConfig", **LLAMA), gradient_accumulation_steps=2, bf16=True)
