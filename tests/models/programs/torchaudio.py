"""torchaudio."""

import torch
import torchaudio
from torch import nn
from torchaudio import models

from tests.models.package import Package, Step

package = Package("torchaudio")


@package.step
def conformer() -> Step:
    net = models.Conformer(8, 2, 16, 2, 3, dropout=0.1)
    x, lengths = torch.randn(2, 6, 8), torch.tensor([6, 4])
    return net, lambda net: net(x, lengths)[0].square().mean()


@package.step
def tasnet() -> Step:
    net = models.ConvTasNet(2, 4, 8, 3, 8, 8, 2, 1)
    x = torch.randn(1, 1, 64)
    return net, lambda net: net(x).square().mean()


@package.step
def wav2letter() -> Step:
    x = torch.randn(1, 8, 200)
    return models.Wav2Letter(5, "mfcc", 8), lambda net: net(x).square().mean()


@package.step
def deep_speech() -> Step:
    x = torch.randn(2, 1, 5, 8)
    return models.DeepSpeech(8, 16, 5), lambda net: net(x).square().mean()


@package.step
def wav2vec() -> Step:
    net = models.wav2vec2_model(
        extractor_mode="group_norm",
        extractor_conv_layer_config=[(8, 10, 5), (8, 3, 2)],
        extractor_conv_bias=False,
        encoder_embed_dim=16,
        encoder_projection_dropout=0.0,
        encoder_pos_conv_kernel=4,
        encoder_pos_conv_groups=2,
        encoder_num_layers=2,
        encoder_num_heads=2,
        encoder_attention_dropout=0.0,
        encoder_ff_interm_features=32,
        encoder_ff_interm_dropout=0.0,
        encoder_dropout=0.1,
        encoder_layer_norm_first=False,
        encoder_layer_drop=0.0,
        aux_num_out=6,
    )
    x = torch.randn(2, 400)
    return net, lambda net: net(x)[0].log_softmax(-1)[..., 0].mean()


@package.step
def tacotron() -> Step:
    net = models.Tacotron2(
        n_mels=4,
        n_symbol=10,
        symbol_embedding_dim=8,
        encoder_embedding_dim=8,
        encoder_n_convolution=1,
        encoder_kernel_size=3,
        decoder_rnn_dim=8,
        attention_rnn_dim=8,
        attention_hidden_dim=8,
        attention_location_n_filter=2,
        attention_location_kernel_size=3,
        prenet_dim=8,
        postnet_n_convolution=2,
        postnet_kernel_size=3,
        postnet_embedding_dim=8,
    )
    words, lengths = torch.randint(0, 10, (2, 5)), torch.tensor([5, 4])
    sound, ends = torch.randn(2, 4, 6), torch.tensor([6, 6])
    return net, lambda net: sum(one.square().mean() for one in net(words, lengths, sound, ends)[:3])


class Spectrum(nn.Module):
    """A convolution on a sound, its mel spectrum, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Conv1d(1, 1, 5, padding=2)
        self.mel = torchaudio.transforms.MelSpectrogram(16000, 64, hop_length=16, n_mels=8)
        self.decibel = torchaudio.transforms.AmplitudeToDB()
        self.after = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.after(self.decibel(self.mel(self.before(x))).mean(-1).squeeze(1))


@package.step
def mel_spectrum() -> Step:
    x, y = torch.randn(2, 1, 256), torch.tensor([0, 2])
    return Spectrum(), lambda net: nn.functional.cross_entropy(net(x), y)
