/* isa - names of the functions that are compiled once per instruction set.
 *
 * The files of cpu/ are compiled for the distribution's baseline and again for higher
 * levels of the processor (CPU_ISA, set by the build); each compilation gets names of its
 * own, and kernels_cpu.c takes the best table that the machine can run.  (Compiled
 * files rather than per-function clones: code inside OpenMP regions and inlined helpers
 * comes along, and a test can run every version that the machine has.)
 */
#ifndef KERNELS_CPU_ISA_H
#define KERNELS_CPU_ISA_H

#ifndef CPU_ISA
#define CPU_ISA base
#endif

#define CPU_PASTE(name, isa) name##_##isa
#define CPU_EXPAND(name, isa) CPU_PASTE (name, isa)
#define CPU_NAME(name) CPU_EXPAND (name, CPU_ISA)

#define cpu_act_bwd CPU_NAME (cpu_act_bwd)
#define cpu_act_fwd CPU_NAME (cpu_act_fwd)
#define cpu_adamw CPU_NAME (cpu_adamw)
#define cpu_adamw_largest CPU_NAME (cpu_adamw_largest)
#define cpu_attention_bwd CPU_NAME (cpu_attention_bwd)
#define cpu_attention_bwd_scratch CPU_NAME (cpu_attention_bwd_scratch)
#define cpu_attention_fwd CPU_NAME (cpu_attention_fwd)
#define cpu_attention_fwd_scratch CPU_NAME (cpu_attention_fwd_scratch)
#define cpu_attention_merge CPU_NAME (cpu_attention_merge)
#define cpu_bias_dropout_add_bwd CPU_NAME (cpu_bias_dropout_add_bwd)
#define cpu_bias_dropout_add_bwd_scratch CPU_NAME (cpu_bias_dropout_add_bwd_scratch)
#define cpu_bias_dropout_add_fwd CPU_NAME (cpu_bias_dropout_add_fwd)
#define cpu_cast CPU_NAME (cpu_cast)
#define cpu_col_sum CPU_NAME (cpu_col_sum)
#define cpu_col_sum_scratch CPU_NAME (cpu_col_sum_scratch)
#define cpu_copy CPU_NAME (cpu_copy)
#define cpu_embedding_bwd CPU_NAME (cpu_embedding_bwd)
#define cpu_embedding_bwd_scratch CPU_NAME (cpu_embedding_bwd_scratch)
#define cpu_embedding_fwd CPU_NAME (cpu_embedding_fwd)
#define cpu_fill CPU_NAME (cpu_fill)
#define cpu_fill_normal CPU_NAME (cpu_fill_normal)
#define cpu_gemm CPU_NAME (cpu_gemm)
#define cpu_gemm_ref CPU_NAME (cpu_gemm_ref)
#define cpu_gemm_ref_scratch CPU_NAME (cpu_gemm_ref_scratch)
#define cpu_gemm_scratch CPU_NAME (cpu_gemm_scratch)
#define cpu_max_abs CPU_NAME (cpu_max_abs)
#define cpu_norm_bwd CPU_NAME (cpu_norm_bwd)
#define cpu_norm_bwd_scratch CPU_NAME (cpu_norm_bwd_scratch)
#define cpu_norm_fwd CPU_NAME (cpu_norm_fwd)
#define cpu_ops CPU_NAME (cpu_ops)
#define cpu_position_bwd CPU_NAME (cpu_position_bwd)
#define cpu_position_bwd_scratch CPU_NAME (cpu_position_bwd_scratch)
#define cpu_position_fwd CPU_NAME (cpu_position_fwd)
#define cpu_rope CPU_NAME (cpu_rope)
#define cpu_state_load CPU_NAME (cpu_state_load)
#define cpu_state_store CPU_NAME (cpu_state_store)
#define cpu_sum_sq CPU_NAME (cpu_sum_sq)
#define cpu_count_zeros CPU_NAME (cpu_count_zeros)
#define cpu_tile CPU_NAME (cpu_tile)
#define cpu_xent_bwd CPU_NAME (cpu_xent_bwd)
#define cpu_xent_loss CPU_NAME (cpu_xent_loss)
#define cpu_xent_max CPU_NAME (cpu_xent_max)
#define cpu_xent_sum CPU_NAME (cpu_xent_sum)
#define flash_check CPU_NAME (flash_check)
#define flash_drop CPU_NAME (flash_drop)
#define flash_pair CPU_NAME (flash_pair)
#define flash_panel CPU_NAME (flash_panel)
#define flash_plan_floats CPU_NAME (flash_plan_floats)
#define flash_prepare CPU_NAME (flash_prepare)
#define flash_scores CPU_NAME (flash_scores)
#define flash_set_keys CPU_NAME (flash_set_keys)
#define flash_set_queries CPU_NAME (flash_set_queries)
#define flash_turn CPU_NAME (flash_turn)
#define flash_turn_back CPU_NAME (flash_turn_back)
#define state_check CPU_NAME (state_check)
#define state_get CPU_NAME (state_get)
#define state_largest CPU_NAME (state_largest)
#define state_put CPU_NAME (state_put)

#endif /* KERNELS_CPU_ISA_H */
