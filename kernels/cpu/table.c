/* table.c - the CPU backend's table */

#include "kernels/cpu/cpu.h"

const struct kern_ops cpu_ops = {
    .name = "cpu",
    .gemm = cpu_gemm,
    .norm_fwd = cpu_norm_fwd,
    .norm_bwd = cpu_norm_bwd,
    .bias_dropout_add_fwd = cpu_bias_dropout_add_fwd,
    .bias_dropout_add_bwd = cpu_bias_dropout_add_bwd,
    .gelu_fwd = cpu_gelu_fwd,
    .gelu_bwd = cpu_gelu_bwd,
    .attention_fwd = cpu_attention_fwd,
    .attention_bwd = cpu_attention_bwd,
    .embedding_fwd = cpu_embedding_fwd,
    .embedding_bwd = cpu_embedding_bwd,
    .position_fwd = cpu_position_fwd,
    .position_bwd = cpu_position_bwd,
    .xent_max = cpu_xent_max,
    .xent_sum = cpu_xent_sum,
    .xent_loss = cpu_xent_loss,
    .xent_bwd = cpu_xent_bwd,
    .adamw = cpu_adamw,
    .fill_normal = cpu_fill_normal,
    .fill = cpu_fill,
    .col_sum = cpu_col_sum,
    .sum_sq = cpu_sum_sq,
    .max_abs = cpu_max_abs,
    .count_zeros = cpu_count_zeros,
    .axpby = cpu_axpby,
    .cast = cpu_cast,
    .cast_scaled = cpu_cast_scaled,
};
