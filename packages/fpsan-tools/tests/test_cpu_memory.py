"""Memory of the CPU engine against plain indexing: random addresses, masks and arrays."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpsan_tools.exceptions import FpsanError, OutOfBounds
from fpsan_tools.ttir.memory import Memory, Span
from fpsan_tools.ttir.types import parse_element
from fpsan_tools.ttir.values import Address

ELEMENTS = {name: parse_element(name) for name in ("i8", "f16", "i32", "f32", "i64")}


def span(array, name="x", writable=True):
    start = array.__array_interface__["data"][0]
    return Span(start, start + array.nbytes, writable, array, name)


def memory_of(*arrays, **options):
    memory = Memory([span(a, f"array{i}") for i, a in enumerate(arrays)], **options)
    return memory, [memory.address(a.__array_interface__["data"][0]) for a in arrays]


@st.composite
def accesses(draw):
    """Terms of addresses (in elements), a mask, and the shape of the access."""
    shape = (draw(st.integers(1, 6)), draw(st.integers(1, 5)), draw(st.integers(1, 4)))
    low, high = draw(st.sampled_from([(0, 20), (-5, 60)]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))

    def term():
        kept = [n if draw(st.booleans()) else 1 for n in shape]
        return rng.integers(low, high, kept)

    terms = [term() for _ in range(draw(st.integers(1, 3)))]
    mask = None
    if draw(st.booleans()):
        kept = [n if draw(st.booleans()) else 1 for n in shape]
        mask = rng.random(kept) < draw(st.sampled_from([0.0, 0.3, 0.9, 1.0]))
    return terms, mask


@given(accesses(), st.sampled_from(sorted(ELEMENTS)), st.booleans())
@settings(max_examples=300, deadline=None)
def test_loads_are_plain_indexing_or_refused(access, name, check_masked):
    terms, mask = access
    element = ELEMENTS[name]
    content = np.random.default_rng(1).integers(0, 256, 64 * element.memory.itemsize, dtype=np.uint8)
    array = content.view(element.memory)
    memory, (base,) = memory_of(array, check_masked=check_masked)
    width = element.memory.itemsize
    address = Address([t * width + (base if i == 0 else 0) for i, t in enumerate(terms)])
    index = sum(terms)
    live = np.ones(1, bool) if mask is None else mask
    index, live = np.broadcast_arrays(index, live)
    inside = (index >= 0) & (index < 64)
    must = np.ones_like(live) if check_masked else live
    if not inside[must].all():
        with pytest.raises(OutOfBounds):
            memory.load(address, mask, element)
        return
    bits, inverse = memory.load(address, mask, element)
    if inverse is not None:
        bits = bits.take(inverse, axis=0)
    expected = np.where(live, array[np.where(live, index, 0)], 0)
    np.testing.assert_array_equal(np.broadcast_to(bits, index.shape), expected)


@given(accesses(), st.sampled_from(sorted(ELEMENTS)))
@settings(max_examples=200, deadline=None)
def test_stores_are_plain_indexing_in_program_order_or_refused(access, name):
    terms, mask = access
    element = ELEMENTS[name]
    array = np.zeros(64, element.memory)
    memory, (base,) = memory_of(array)
    width = element.memory.itemsize
    address = Address([t * width + (base if i == 0 else 0) for i, t in enumerate(terms)])
    index, live = np.broadcast_arrays(sum(terms), np.ones(1, bool) if mask is None else mask)
    bits = np.random.default_rng(2).integers(1, 100, index.shape).astype(element.memory)
    if not ((index >= 0) & (index < 64))[live].all():
        with pytest.raises(OutOfBounds):
            memory.store(address, bits, mask, element)
        assert not array.any()
        return
    expected = np.zeros(64, element.memory)
    for i, v in zip(index[live], bits[live], strict=True):
        expected[i] = v
    memory.store(address, bits, mask, element)
    np.testing.assert_array_equal(array, expected)


def test_accesses_may_go_to_several_arrays():
    first, second = np.arange(8, dtype=np.float32), np.arange(100, 108, dtype=np.float32)
    memory, (a, b) = memory_of(first, second)
    element = ELEMENTS["f32"]
    address = Address([np.array([[a, b + 4, a + 28, b]])])
    bits, _ = memory.load(address, None, element)
    np.testing.assert_array_equal(bits.view(np.float32), [[0, 101, 7, 100]])
    memory.store(address, np.array([[1, 2, 3, 4]], np.float32).view(np.uint32), None, element)
    assert (first[0], second[1], first[7], second[0]) == (1, 2, 3, 4)


def test_misaligned_accesses_are_refused():
    memory, (a,) = memory_of(np.arange(8, dtype=np.float32))
    with pytest.raises(OutOfBounds, match="not a multiple of 4"):
        memory.load(Address([np.array([a + 2])]), None, ELEMENTS["f32"])
    with pytest.raises(OutOfBounds, match="not a multiple of 4"):
        memory.store(Address([np.array([a + 2])]), np.zeros(1, np.uint32), None, ELEMENTS["f32"])


def test_overlapping_views_are_one_buffer():
    x = np.arange(16, dtype=np.float32)
    memory, (a, b) = memory_of(x[:12], x[4:])
    assert b == a + 16
    bits, _ = memory.load(Address([np.array([a + 60])]), None, ELEMENTS["f32"])
    assert bits.view(np.float32)[0] == 15


def test_neighbours_in_memory_are_kept_apart():
    x = np.arange(16, dtype=np.float32)
    memory, (a, b) = memory_of(x[:8], x[8:])
    assert b - a > 1 << 40
    with pytest.raises(OutOfBounds, match="4 bytes past the end of array 'array0'"):
        memory.load(Address([np.array([a + 32])]), None, ELEMENTS["f32"])
    with pytest.raises(OutOfBounds, match="4 bytes before array 'array1'"):
        memory.load(Address([np.array([b - 4])]), None, ELEMENTS["f32"])


def test_addresses_of_this_machine_are_translated():
    x = np.arange(8, dtype=np.float32)
    memory, (a,) = memory_of(x)
    real = x.__array_interface__["data"][0]
    np.testing.assert_array_equal(memory.pointers(np.array([real + 8, 5, a])), [a + 8, 5, a])
    with pytest.raises(OutOfBounds, match="none of the arrays"):
        memory.address(real + 10**9)


def test_read_only_buffers_can_be_read_only():
    x = np.arange(8, dtype=np.float32)
    memory = Memory([span(x, writable=False)])
    a = memory.address(x.__array_interface__["data"][0])
    memory.load(Address([np.array([a])]), None, ELEMENTS["f32"])
    with pytest.raises(FpsanError, match="read-only"):
        memory.store(Address([np.array([a])]), np.zeros(1, np.uint32), None, ELEMENTS["f32"])
