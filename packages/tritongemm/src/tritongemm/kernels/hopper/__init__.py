"""Warp-specialised kernels for Hopper, written in Gluon: one warp loads tiles, two warpgroups multiply them.

`pipeline` holds what they share: the order of tiles, the ring of stages in shared memory, the loading warp and the way
results leave. `warp_specialised` and `emulated` hold the multiplying warpgroups, `simt` the fp32 kernel without matrix
units, `splitting` the kernels that cut fp32 numbers into parts. `small` is for few rows, where reading B is all that
takes time: one group of warps loads and multiplies. They need Triton 3.9 or newer and a GPU of compute
capability 9.0; `numfmt` predicts their bits on a CPU.
"""
