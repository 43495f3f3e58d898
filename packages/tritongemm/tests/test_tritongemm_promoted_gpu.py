"""On an H200: fp8 in tiles of two widths has the bits of other kernels of the mode, for any shape, strides and scales.

    python3 -m pytest packages/tritongemm/tests/test_tritongemm_promoted_gpu.py -m gpu

No GPU is a failure here, never a skip.
"""

import numpy as np
import pytest
from tritongemm_gpu import bits, numbers

pytestmark = pytest.mark.gpu


def block_scales(torch, M, K, N):
    rng = np.random.default_rng([M, K, N])
    blocks = -(-K // 128)
    rows = np.ldexp(rng.uniform(0.5, 1, (M, blocks)), rng.integers(-60, 60, (M, 1))).astype(np.float32)
    columns = np.ldexp(rng.uniform(0.5, 1, (blocks, -(-N // 128))), rng.integers(-9, 9, (blocks, 1)))
    rows[M // 2] = 2.0**-126  # sums that underflow, and would be -0
    return [torch.from_numpy(x.astype(np.float32)).cuda() for x in (rows, columns)]


def config_for(**changes):
    from tritongemm.configurations import Config

    given = {"block_m": 128, "block_n": 128, "block_k": 128, "stages": 4}
    return Config(kernel="promoted", **(given | changes))


PLAIN = {"block_m": 64, "block_n": 64, "block_k": 128, "stages": 3}
# Rows of tiles for more than one round of programs, an odd and an even number of steps, edges everywhere.
SHAPES = [(300, 1030, 515), (128, 128, 192), (1, 130, 40), (257, 384, 264), (520, 640, 1300), (2000, 260, 5000)]


# Compiling takes seconds per type and way out, so a test has one of each.
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_tiles_of_two_widths_have_the_bits_of_other_kernels(torch, dtype):
    from tritongemm import dispatch
    from tritongemm.configurations import Config

    kind = getattr(torch, dtype)
    for M, K, N in SHAPES:
        a, b = numbers(torch, M, K, kind), numbers(torch, N, K, kind, 1).t()
        want = dispatch.product(a, b, out_dtype="float32", config=Config(kernel="blocked", **PLAIN))
        whole = torch.full((M + 2, N + 3), 7.0, device="cuda")
        out = whole[1:-1, 2 : 2 + N]
        dispatch.product(a, b, out=out, config=config_for())
        np.testing.assert_array_equal(bits(out), bits(want), err_msg=str((M, K, N)))
        out.fill_(7.0)
        assert bool((whole == 7).all())


def test_neither_stages_nor_groups_nor_the_way_out_change_a_bit(torch):
    from tritongemm import dispatch
    from tritongemm.configurations import Config

    kind = torch.float8_e4m3fn
    a, b = numbers(torch, 520, 640, kind), numbers(torch, 1304, 640, kind, 1).t()
    want = dispatch.product(a, b, out_dtype="float32", config=Config(kernel="blocked", **PLAIN))
    for changes in ({}, {"stages": 2, "group_m": 3}):
        got = dispatch.product(a, b, out_dtype="bfloat16", config=config_for(**changes))
        np.testing.assert_array_equal(bits(got), bits(want.bfloat16()), err_msg=str(changes))


def test_scales_of_blocks_of_any_strides_have_the_bits_of_the_plain_kernel(torch):
    from tritongemm import dispatch
    from tritongemm.configurations import Config

    kind = torch.float8_e4m3fn
    for M, K, N in SHAPES:
        a, b = numbers(torch, M, K, kind), numbers(torch, N, K, kind, 1).t()
        rows, columns = block_scales(torch, M, K, N)
        plain = Config(kernel="block_scaled", **PLAIN)
        want = dispatch.scaled_product(a, b, rows, columns, out_dtype="float32", config=plain)
        for x, y in ((rows, columns), (rows.t().contiguous().t(), columns.t().contiguous().t())):
            out = torch.full((M, N + 3), float("nan"), device="cuda")[:, :N]
            dispatch.scaled_product(a, b, x, y, out=out, config=config_for())
            np.testing.assert_array_equal(bits(out), bits(want), err_msg=str((M, K, N)))


@pytest.mark.parametrize("blocks", [False, True])
def test_epilogues_have_the_bits_of_the_other_kernels(torch, blocks):
    from tritongemm import dispatch
    from tritongemm.configurations import Config
    from tritongemm.kernels.epilogue import Epilogue

    M, K, N = 200, 300, 600
    kind = torch.float8_e4m3fn
    a, b = numbers(torch, M, K, kind), numbers(torch, N, K, kind, 1).t()
    c, bias = numbers(torch, M, N, torch.float32, 2), numbers(torch, 1, N, torch.float32, 3)[0]
    epilogue = Epilogue(alpha=1.5, beta=-0.5, c=c, bias=bias, activation="silu")
    if blocks:
        scales, plain = block_scales(torch, M, K, N), Config(kernel="block_scaled", **PLAIN)
    else:
        scales = numbers(torch, M, 1, torch.float32, 4), numbers(torch, 1, N, torch.float32, 5)
        plain = Config(kernel="blocked", **PLAIN)
    got, want = (
        dispatch.scaled_product(a, b, *scales, epilogue=epilogue, config=config, out_dtype="float32")
        for config in (config_for(), plain)
    )
    np.testing.assert_array_equal(bits(got), bits(want))


@pytest.mark.parametrize("blocks", [False, True])
def test_large_products_choose_this_kernel_and_a_row_keeps_its_bits_among_few(torch, blocks):
    from tritongemm import dispatch, modes
    from tritongemm.kernels.epilogue import Epilogue
    from tritongemm.kernels.problems import Operands

    M, K, N = 2048, 640, 4096
    kind = torch.float8_e4m3fn
    a, b = numbers(torch, M, K, kind), numbers(torch, N, K, kind, 1).t()
    chosen, _ = dispatch.choose(Operands.of(a, b, modes.get("ieee"), epilogue=Epilogue()))
    assert chosen.kernel == "promoted"
    if blocks:
        rows, columns = block_scales(torch, M, K, N)
        want = dispatch.scaled_product(a, b, rows, columns, out_dtype="float32")
        for count in (1, 17, 64, 200):
            few = dispatch.scaled_product(a[:count], b, rows[:count], columns, out_dtype="float32")
            np.testing.assert_array_equal(bits(few), bits(want[:count]))
    else:
        want = dispatch.product(a, b, out_dtype="float32")
        for count in (1, 17, 64, 200):
            np.testing.assert_array_equal(bits(dispatch.product(a[:count], b, out_dtype="float32")), bits(want[:count]))
