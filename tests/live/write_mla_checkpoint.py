"""Writes a checkpoint with latent attention (MLA) and random weights: `python write_mla_checkpoint.py FOLDER MODEL`.

Run with an engine's python: needs transformers and torch. The tokenizer and its chat template are those of MODEL. Two
layers, but the attention shapes of DeepSeek: a latent of 512 + 64, since engines have kernels for no others.
"""

import shutil
import sys
from pathlib import Path

import torch
from transformers import AutoTokenizer, DeepseekV2Config, DeepseekV2ForCausalLM


def main() -> None:
    folder, tokenizer = Path(sys.argv[1]), Path(sys.argv[2])
    torch.manual_seed(0)
    config = DeepseekV2Config(
        vocab_size=len(AutoTokenizer.from_pretrained(tokenizer)),
        hidden_size=256,
        intermediate_size=512,
        moe_intermediate_size=128,
        num_hidden_layers=2,
        first_k_dense_replace=2,  # no experts: they are not what it is about
        num_attention_heads=4,
        num_key_value_heads=4,
        n_routed_experts=2,
        num_experts_per_tok=1,
        n_shared_experts=1,
        kv_lora_rank=512,
        q_lora_rank=None,
        qk_rope_head_dim=64,
        qk_nope_head_dim=128,
        v_head_dim=128,
        max_position_embeddings=2048,
        bos_token_id=1,
        eos_token_id=2,
    )
    DeepseekV2ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"):
        if (tokenizer / name).exists():
            shutil.copy(tokenizer / name, folder)


if __name__ == "__main__":
    main()
