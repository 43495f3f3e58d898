"""Operations of Triton's dialects that are known and refused: why, and their names."""

from __future__ import annotations

_LATER = (
    "it belongs to pipelines, warp specialisation or newer GPUs, which are not evaluated; "
    "Gluon kernels are not supported"
)
_INSTRUMENTED = "it belongs to an instrumentation that the compiler adds, not to a kernel"
_HOST = "it belongs to generic GPU code that Triton's front end does not produce"
_NOT_PRODUCED = "Triton's front end does not produce it"
_STRUCTURE = "it is a container, not something to evaluate"

_NAMES: dict[str, str] = {
    _STRUCTURE: "tt.func builtin.module func.func gpu.module",
    _NOT_PRODUCED: """
        arith.addui_extended arith.ceildivsi arith.ceildivui arith.convertf arith.floordivsi arith.flush_denormals
        arith.scaling_extf arith.scaling_truncf arith.subui_extended
        builtin.unrealized_conversion_cast cf.assert cf.switch func.call func.call_indirect func.constant func.return
        math.acos math.acosh math.asin math.asinh math.atan math.atan2 math.atanh math.cbrt math.clampf math.copysign
        math.cosh math.erfc math.expm1 math.fpowi math.ipowi math.isfinite math.isinf math.isnan math.isnormal
        math.log10 math.log1p math.powf math.round math.roundeven math.sincos math.sinh math.tan math.tanh math.trunc
        scf.execute_region scf.forall scf.forall.in_parallel scf.index_switch scf.parallel scf.reduce
        scf.reduce.return
        tensor.bitcast tensor.cast tensor.collapse_shape tensor.concat tensor.dim tensor.empty tensor.expand_shape
        tensor.extract tensor.extract_slice tensor.from_elements tensor.gather tensor.generate tensor.insert
        tensor.insert_slice tensor.pad tensor.parallel_insert_slice tensor.rank tensor.reshape tensor.scatter
        tensor.splat tensor.yield
    """,
    _LATER: """
        gluon.set_auto_layout nvws.aref.buffer nvws.aref.create nvws.aref.get.enter nvws.aref.get.exit
        nvws.aref.phi nvws.aref.put.enter nvws.aref.put.exit nvws.clc_try_cancel nvws.consumer_release
        nvws.consumer_wait nvws.create_token nvws.descriptor_gather nvws.descriptor_load nvws.producer_acquire
        nvws.producer_commit nvws.warp_group nvws.warp_group.return nvws.warp_group.yield ttg.async_commit_group
        ttg.async_copy_global_to_local ttg.async_wait ttg.inline_asm ttg.local_atomic_scatter_rmw
        ttg.local_gather ttg.local_scatter ttg.mask ttg.mask.return ttg.memdesc_index ttg.memdesc_reinterpret
        ttg.memdesc_subslice ttg.predicate_stage ttg.warp_id ttg.warp_return ttg.warp_specialize
        ttg.warp_specialize.partitions ttg.warp_yield ttng.arrive_barrier ttng.cluster_arrive ttng.cluster_wait
        ttng.async_copy_mbarrier_arrive ttng.async_shared_store ttng.clc_get_program_id ttng.clc_is_canceled
        ttng.clc_load_result ttng.clc_try_cancel ttng.clc_try_cancel_sync ttng.cluster_barrier
        ttng.fence_mbarrier_init_release_cluster ttng.packed_arith ttng.tc_gen5_commit ttng.tc_gen5_mma
        ttng.tc_gen5_mma_scaled ttng.tmem_alloc ttng.tmem_copy ttng.tmem_load ttng.tmem_store ttng.tmem_subslice
        ttng.tmem_wait """,
    _INSTRUMENTED: """ tti.dot_i8 tti.experimental_assert_uniform
        tti.experimental_buffer_descriptors tti.experimental_cluster_cta_id tti.experimental_fpsan_embed
        tti.experimental_fpsan_unembed tti.experimental_gsan_atomic_cas tti.experimental_gsan_atomic_load
        tti.experimental_gsan_atomic_poll tti.experimental_gsan_atomic_rmw tti.experimental_gsan_atomic_store
        tti.experimental_gsan_atomic_tensor_access tti.experimental_gsan_tensordesc_info
        tti.experimental_gsan_atomic_tensordesc_access tti.experimental_gsan_cluster_barrier_init
        tti.experimental_gsan_cluster_barrier_sync tti.experimental_gsan_grid_dependency_wait
        tti.experimental_gsan_indexed_tensordesc_access tti.experimental_gsan_init
        tti.experimental_gsan_kernel_exit tti.experimental_gsan_mbarrier_arrive
        tti.experimental_gsan_mbarrier_init tti.experimental_gsan_mbarrier_table_init
        tti.experimental_gsan_mbarrier_wait tti.experimental_gsan_tensor_access
        tti.experimental_gsan_tensordesc_access tti.experimental_local_gather tti.experimental_lock_acquire
        tti.experimental_lock_release tti.experimental_memdesc_to_i32 tti.experimental_memory_offset_to_i32
        proton.record
    """,
    _HOST: """
        gpu.all_reduce gpu.alloc gpu.ballot gpu.binary gpu.block_dim gpu.block_id gpu.cluster_block_id
        gpu.cluster_dim gpu.cluster_dim_blocks gpu.cluster_id gpu.create_2to4_spmat gpu.create_bsr gpu.create_coo
        gpu.create_coo_aos gpu.create_csc gpu.create_csr gpu.create_dn_tensor gpu.dealloc gpu.destroy_dn_tensor
        gpu.destroy_sp_mat gpu.dynamic_shared_memory gpu.func gpu.global_id gpu.grid_dim gpu.host_register
        gpu.host_unregister gpu.initialize_named_barrier gpu.lane_id gpu.launch gpu.launch_func gpu.memcpy gpu.memset
        gpu.num_subgroups gpu.printf gpu.return gpu.rotate gpu.sddmm gpu.sddmm_buffer_size gpu.set_csr_pointers
        gpu.set_default_device gpu.shuffle gpu.spgemm_copy gpu.spgemm_create_descr gpu.spgemm_destroy_descr
        gpu.spgemm_work_estimation_or_compute gpu.spmat_get_size gpu.spmm gpu.spmm_buffer_size gpu.spmv
        gpu.spmv_buffer_size gpu.subgroup_broadcast gpu.subgroup_id gpu.subgroup_mma_compute
        gpu.subgroup_mma_constant_matrix gpu.subgroup_mma_elementwise gpu.subgroup_mma_extract_thread_local
        gpu.subgroup_mma_insert_thread_local gpu.subgroup_mma_load_matrix gpu.subgroup_mma_store_matrix
        gpu.subgroup_reduce gpu.subgroup_size gpu.terminator gpu.thread_id gpu.wait gpu.warp_execute_on_lane_0
        gpu.yield
    """,
}

REFUSED: dict[str, str] = {name: reason for reason, names in _NAMES.items() for name in names.split()}
"""Reason by operation name."""
