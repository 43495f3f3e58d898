"""The matrix-product kernels, one module each: kernel, launcher, summation order, bound, and what its numbers mean.

| kernel | what it is for | summation order |
|---|---|---|
| `strided_lanes` | teaching: slow and accurate | 256 running sums, joined by a tree |
| `blocked` | any product, any strides, every mode of `tl.dot` | the mode's |
| `persistent` | large products of operands that TMA can read | the mode's |
| `split_k` | few outputs and long sums | the mode's per part, parts added in ascending k |
| `stream_k` | tiles that do not fill the last wave | the mode's per part, parts added in ascending k |
| `block_scaled` | fp8 with 1 x 128 and 128 x 128 scales | 128 products on the tensor core, then fp32 |
| `grouped` | many products of different sizes in one launch | the mode's |
| `hopper` | a package: the fast kernels of a Hopper GPU, and those of emulated fp32 | the mode's |

They share an order of tiles (`tiles`), a main loop with masked loads (`mainloop`), an epilogue (`epilogue`) and the
checks of operands (`problems`; `launching` for the two kernels that the audit shows). The modules import Triton;
`tritongemm` itself does not.
"""
