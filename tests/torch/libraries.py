"""Models of torchvision and transformers with random weights and small configurations."""

from __future__ import annotations

import torch
import torchvision
import transformers
from models import Model, noise, tokens
from torch import nn

IDS = tokens(50, 2, 6)
SIZES = {"num_hidden_layers": 2, "num_attention_heads": 4}


class ResNet(torchvision.models.ResNet):
    """ResNet-18 of any width."""

    def __init__(self, n):
        block = torchvision.models.resnet.BasicBlock
        super().__init__(block, [1, 1, 1, 1], num_classes=10)
        self.inplanes, self.conv1, self.bn1 = n, nn.Conv2d(3, n, 7, 2, 3, bias=False), nn.BatchNorm2d(n)
        self.layer1 = self._make_layer(block, n, 2)
        self.layer2, self.layer3, self.layer4 = (self._make_layer(block, k * n, 2, stride=2) for k in (2, 4, 8))
        self.fc = nn.Linear(8 * n, 10)


class T5(nn.Module):
    def __init__(self, n):
        super().__init__()
        sizes = {"d_model": n, "d_kv": n // 4, "d_ff": 2 * n, "num_layers": 2, "num_heads": 4}
        self.m = transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=50, use_cache=False, **sizes))

    def forward(self, source, target):
        return self.m(input_ids=source, decoder_input_ids=target, use_cache=False).logits


def vit(n):
    return torchvision.models.VisionTransformer(
        image_size=16, patch_size=4, num_layers=2, num_heads=4, hidden_dim=n, mlp_dim=4 * n, num_classes=10
    )


def gpt2(n):
    sizes = {"n_embd": n, "n_layer": 2, "n_head": 4, "n_positions": 16}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=50, use_cache=False, **sizes))


def llama(n):
    sizes = {"hidden_size": n, "intermediate_size": 3 * n, "num_key_value_heads": 2, "max_position_embeddings": 32}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=50, use_cache=False, **sizes, **SIZES))


def bert(n):
    sizes = {"hidden_size": n, "intermediate_size": 4 * n, "max_position_embeddings": 32}
    return transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=50, **sizes, **SIZES))


def image_transformer(n):
    sizes = {"hidden_size": n, "intermediate_size": 4 * n, "image_size": 16, "patch_size": 4}
    return transformers.ViTForImageClassification(transformers.ViTConfig(**sizes, **SIZES))


def mamba(n):
    sizes = {"hidden_size": n, "state_size": 4, "num_hidden_layers": 2, "time_step_rank": 4, "expand": 2}
    return transformers.MambaForCausalLM(transformers.MambaConfig(vocab_size=50, use_cache=False, **sizes))


class Whisper(nn.Module):
    """The encoder alone."""

    def __init__(self, n):
        super().__init__()
        sizes = {"d_model": n, "encoder_layers": 1, "encoder_attention_heads": 4, "encoder_ffn_dim": 2 * n}
        config = transformers.WhisperConfig(num_mel_bins=6, max_source_positions=5, vocab_size=50, **sizes)
        self.m, self.o = transformers.models.whisper.modeling_whisper.WhisperEncoder(config), nn.Linear(n, 3)

    def forward(self, x):
        return self.o(self.m(x).last_hidden_state)


class Clip(nn.Module):
    """The text of CLIP: the place of its last token is looked for in the input."""

    def __init__(self, n):
        super().__init__()
        sizes = {"hidden_size": n, "intermediate_size": 2 * n, "num_hidden_layers": 1, "num_attention_heads": 4}
        ends = {"bos_token_id": 48, "eos_token_id": 49, "pad_token_id": 1}
        config = transformers.CLIPTextConfig(
            vocab_size=50, max_position_embeddings=16, projection_dim=5, **sizes, **ends
        )
        self.m = transformers.CLIPTextModelWithProjection(config)

    def forward(self, i):
        return self.m(input_ids=i).text_embeds


def gemma(n):
    sizes = {"hidden_size": n, "intermediate_size": 2 * n, "head_dim": n // 4, "query_pre_attn_scalar": n // 4}
    config = transformers.Gemma2Config(vocab_size=50, use_cache=False, num_key_value_heads=2, **sizes, **SIZES)
    return transformers.Gemma2ForCausalLM(config)


LIBRARIES = {
    "ResNet-18": Model(ResNet, (noise(2, 3, 32, 32),), (8, 16, 32)),
    "ViT": Model(vit, (noise(2, 3, 16, 16),)),
    "GPT-2": Model(gpt2, (IDS,)),
    "Llama": Model(llama, (IDS,)),
    "BERT": Model(bert, (IDS,)),
    "T5": Model(T5, (IDS, IDS)),
    "ViT of transformers": Model(image_transformer, (noise(2, 3, 16, 16),)),
    "Mamba": Model(mamba, (IDS,)),
    "Gemma 2": Model(gemma, (IDS,)),
    "Whisper": Model(Whisper, (noise(1, 6, 10),)),
    "CLIP text": Model(Clip, (torch.cat([IDS[:, :5] % 40 + 2, torch.full((2, 1), 49)], 1),)),
}
