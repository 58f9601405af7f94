"""What a tensor's name says it is for."""

import pytest

from holddown.facts.naming import Place, TensorName, as_draft, draft_layers, is_scale, place, tensor_name
from holddown.facts.weight_groups import Component, Split

_NAMES = """
model.layers.3.self_attn.q_proj.weight                          attention column
model.layers.3.self_attn.k_proj.bias                            attention kv_heads
model.layers.3.self_attn.o_proj.weight_packed                   attention row
model.layers.3.self_attn.qkv_proj.weight                        attention column
model.layers.3.self_attn.q_a_proj.weight                        attention replicated
model.layers.3.self_attn.q_b_proj.weight                        attention column
model.layers.3.self_attn.kv_a_proj_with_mqa.weight_scale_inv    attention replicated
model.layers.3.self_attn.kv_b_proj.weight                       attention column
model.layers.3.self_attn.indexer.wq_b.weight                    attention replicated
model.layers.3.self_attn.indexer.k_norm.bias                    norms replicated
model.layers.3.self_attn.q_norm.weight                          norms replicated
model.layers.3.self_attn.sinks                                  attention column
model.layers.3.self_attn.q_conv1d.weight                        attention column
model.layers.3.self_attn.f_a_proj.weight                        attention replicated
model.layers.3.linear_attn.in_proj_qkvz.weight                  attention column
model.layers.3.linear_attn.dt_bias                              attention column
model.layers.3.linear_attn.out_proj.weight                      attention row
model.layers.3.mlp.gate_up_proj.weight                          dense_mlp column
model.layers.3.mlp.down_proj.weight                             dense_mlp row
model.layers.3.mlp.gate.weight                                  router replicated
model.layers.3.mlp.gate.e_score_correction_bias                 router replicated
model.layers.3.mlp.router.bias                                  router replicated
model.layers.3.mlp.shared_expert_gate.weight                    shared_experts replicated
model.layers.3.mlp.shared_experts.down_proj.weight              shared_experts row
model.layers.3.share_expert.up_proj.weight                      shared_experts column
model.layers.3.mlp.experts.12.down_proj.weight_scale            routed_experts experts
model.layers.3.mlp.experts.gate_up_proj_blocks                  routed_experts experts
model.layers.3.block_sparse_moe.experts.3.w1.weight             routed_experts experts
model.layers.3.block_sparse_moe.gate.weight                     router replicated
model.layers.3.moe.gate_proj.weight                             routed_experts experts
model.layers.3.moe.gate.weight                                  router replicated
language_model.model.layers.3.feed_forward.experts.down_proj    routed_experts experts
thinker.model.layers.3.mlp.up_proj.weight                       dense_mlp column
model.language_model.layers.3.router.per_expert_scale           router replicated
model.language_model.layers.3.router.scale                      router replicated
model.language_model.layers.3.layer_scalar                      norms replicated
backbone.layers.3.mixer.in_proj.weight                          attention column
backbone.layers.3.mixer.A_log                                   attention column
backbone.layers.3.mixer.gate.weight                             router replicated
backbone.layers.3.mixer.experts.7.up_proj.weight                routed_experts experts
backbone.layers.3.mixer.fc1_latent_proj.weight                  shared_experts replicated
backbone.layers.3.mixer.down_proj.weight                        dense_mlp row
backbone.embeddings.weight                                      embeddings vocab
model.embed_tokens.weight                                       embeddings vocab
model.norm.weight                                               norms replicated
lm_head.weight                                                  head vocab
model.layers.61.eh_proj.weight                                  mtp replicated
model.layers.61.shared_head.head.weight                         mtp vocab
model.layers.61.embed_tokens.weight                             mtp vocab
mtp.layers.0.mlp.experts.3.down_proj.weight                     mtp experts
mtp.fc.weight                                                   mtp replicated
vision_tower.encoder.blocks.0.wqkv.weight                       vision replicated
model.visual.blocks.3.mlp.linear_fc1.bias                       vision replicated
mm_projector.pre_norm.weight                                    vision replicated
layers.3.attention.wq.weight                                    attention column
layers.3.attention.wkv_a_with_mqa.weight                        attention replicated
layers.3.feed_forward.w1.weight                                 dense_mlp column
layers.3.gate.weight                                            router replicated
output.weight                                                   head vocab
tok_embeddings.weight                                           embeddings vocab
layers.3.attn.wo_a.scale                                        attention column
layers.3.ffn.experts.3.w2.weight                                routed_experts experts
layers.3.ffn.gate.tid2eid                                       router replicated
head.weight                                                     head vocab
blk.3.attn_q.weight                                             attention column
blk.3.attn_k.weight                                             attention kv_heads
blk.3.attn_output.weight                                        attention row
blk.3.attn_kv_a_mqa.weight                                      attention replicated
blk.3.ffn_gate_exps.weight                                      routed_experts experts
blk.3.ffn_down_shexp.weight                                     shared_experts row
blk.3.ffn_gate_inp.weight                                       router replicated
blk.3.exp_probs_b.bias                                          router replicated
blk.3.ffn_down.weight                                           dense_mlp row
blk.3.indexer.attn_q_b.weight                                   attention replicated
blk.61.nextn.eh_proj.weight                                     mtp replicated
token_embd.weight                                               embeddings vocab
output_norm.weight                                              norms replicated
model.layers.3.self_attn.o_a_proj.weight                        attention column
model.layers.3.self_attn.kv_proj.weight                         attention replicated
model.layers.3.self_attn.forget_gate.f_b_proj.weight            attention column
model.layers.45.transformer.shared_head.output.weight           mtp vocab
model.mtp.layers.0.mlp.down_proj.weight                         mtp row
model.layers.3.block_sparse_moe.input_linear.weight             routed_experts experts
strange.thing.weight                                            other replicated
"""


@pytest.mark.parametrize("row", _NAMES.strip().splitlines(), ids=lambda row: row.split()[0])
def test_a_name_tells_component_and_split(row: str) -> None:
    """Every spelling of the families in use has its place; a name nobody knows is held whole by every rank."""
    name, component, split = row.split()
    assert place(tensor_name(name).module) == Place(Component(component), Split(split))


@pytest.mark.parametrize(
    ("name", "module", "numbers", "part"),
    [
        (
            "model.layers.3.mlp.experts.12.w1.weight_scale_2",
            "model.layers.*.mlp.experts.*.w1",
            (3, 12),
            "weight_scale_2",
        ),
        ("model.layers.3.mlp.experts.down_proj_scales", "model.layers.*.mlp.experts.down_proj", (3,), "scales"),
        ("model.layers.3.mlp.experts.down_proj", "model.layers.*.mlp.experts.down_proj", (3,), ""),
        ("model.layers.0.mlp.up_proj.weight.absmax", "model.layers.*.mlp.up_proj", (0,), "weight.absmax"),
        ("backbone.layers.0.mixer.A_log", "backbone.layers.*.mixer.A_log", (0,), ""),
        ("model.layers.0.linear_attn.dt_bias", "model.layers.*.linear_attn.dt_bias", (0,), ""),
        ("model.layers.0.router.scale", "model.layers.*.router.scale", (0,), ""),
        ("lm_head.weight", "lm_head", (), "weight"),
    ],
)
def test_a_name_comes_apart(name: str, module: str, numbers: tuple[int, ...], part: str) -> None:
    """Module, numbers and part; a trained parameter that is called like a quantiser's part stays one."""
    assert tensor_name(name) == TensorName(module, numbers, part)


def test_scales_are_no_parameters() -> None:
    """What a quantiser wrote beside a weight is told from what was trained."""
    assert all(is_scale(part) for part in ("weight_scale_inv", "qzeros", "weight.quant_map", "k_scale", "scales"))
    assert not any(is_scale(part) for part in ("weight", "bias", "weight_packed", "qweight", "blocks", ""))


def test_draft_layers_come_after_the_last_one() -> None:
    """DeepSeek V3's MTP layer has number 61 and no word of its own in its name; a wrapper's text part is asked too."""
    deepseek = {"num_hidden_layers": 61, "num_nextn_predict_layers": 1}
    assert draft_layers(deepseek) == (61,)
    assert draft_layers({"text_config": deepseek}) == (61,)
    assert draft_layers({"num_hidden_layers": 61}) == ()
    assert draft_layers({"num_hidden_layers": 61, "num_nextn_predict_layers": "many"}) == ()
    assert as_draft(place("model.layers.*.self_attn.q_b_proj")) == Place(Component.MTP, Split.COLUMN)
