import triton
import triton.language as tl


@triton.jit
def reference_kernel(a, b, c, M, N, K, BLOCK: tl.constexpr):
    """One output a program: as plain as it can be."""
    m, n = tl.program_id(0), tl.program_id(1)
    total = 0.0
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        left = tl.load(a + m * K + k, mask=k < K, other=0.0)
        right = tl.load(b + k * N + n, mask=k < K, other=0.0)
        total += tl.sum(left * right)
    tl.store(c + m * N + n, total)


@triton.jit
def tiled_kernel(
    a, b, c, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """The fast one: a tile a program."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    k = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        row, column = (start + k)[:, None], (start + k)[None, :]
        left = tl.load(a + m * K + column, mask=(m < M) & (column < K), other=0.0)
        right = tl.load(b + row * N + n, mask=(row < K) & (n < N), other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(c + m * N + n, total, mask=(m < M) & (n < N))
