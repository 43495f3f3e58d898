"""Copies of operands that the copy engine does not take, evaluated on the CPU."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.triton, pytest.mark.torch]


def copying():
    pytest.importorskip("triton")
    from tritongemm.kernels.hopper import copying

    return copying


def random_words(shape, kind):
    """Any bits, NaN among them: copies move bits, not numbers."""
    rng = np.random.default_rng(0)
    integers = {torch.bfloat16: np.int16, torch.float16: np.int16, torch.float32: np.int32}[kind]
    limits = np.iinfo(integers)
    return torch.from_numpy(rng.integers(limits.min, limits.max, shape, integers, endpoint=True)).view(kind)


def same_bits(x, y):
    kind = {2: torch.int16, 4: torch.int32}[x.element_size()]
    return torch.equal(x.contiguous().view(kind), y.contiguous().view(kind))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("offset", range(4))
@pytest.mark.parametrize(("columns", "gap"), [(1, 0), (2, 1), (5, 0), (6, 0), (7, 2), (1025, 0), (1026, 1)], ids=str)
def test_rows_that_begin_anywhere_are_moved_apart(kind, offset, columns, gap):
    import fpsan_tools

    rows, pitch, wide = 11, columns + gap, -(-columns // 8) * 8
    # The evaluator reports every access outside of the memory that is given here.
    memory = random_words(offset + (rows - 1) * pitch + columns, kind)
    x = memory.as_strided((rows, columns), (pitch, 1), offset)
    out = torch.zeros((rows, wide), dtype=kind)
    module = copying()

    def launch(kernel, grid, *arguments, **constants):
        fpsan_tools.run(kernel, grid, *arguments, domain="hardware", **constants)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "launch", launch)
        module.pad(x, out)  # with its room for an even number
    assert same_bits(out[:, :columns], x)
