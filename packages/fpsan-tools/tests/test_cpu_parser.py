"""The parser of the compiler's text: awkward strings, locations, types, forms."""

import pytest

from fpsan_tools.exceptions import FpsanError
from fpsan_tools.ttir.parser import parse
from fpsan_tools.ttir.types import parse_element, parse_type, split_top

TEXT = r"""
#blocked = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#loc = loc("/tmp/my dir/k.py":6:1)
#loc1 = loc(unknown)
#loc4 = loc("x"(#loc2))
module attributes {"ttg.num-warps" = 8 : i32} {
  tt.func public @k(%a: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("a"(#loc)), %n: i32 loc("n"(#loc))) {
    %c = arith.constant dense<0xFF800000> : tensor<8xf32, #blocked> loc(#loc1)
    %t = arith.constant true loc(#loc1)
    tt.assert %t, "a loc(here) {brace} : colon -> \"quoted\" %x \0A" : i1 loc(#loc4)
    %r:2 = "tt.reduce"(%c, %c) <{axis = 0 : i32}> ({
    ^bb0(%p: f32 loc(callsite(#loc1 at #loc4)), %q: f32, %u: f32, %v: f32):
      %s = arith.addf %p, %u : f32 loc(#loc5)
      tt.reduce.return %s, %q : f32, f32 loc(#loc5)
    }) : (tensor<8xf32, #blocked>, tensor<8xf32, #blocked>) -> (f32, f32) loc(#loc5)
    %w = scf.if %t -> (i32) {
      scf.yield %n : i32 loc(#loc1)
    } else {
      scf.yield %n : i32 loc(#loc1)
    } loc(#loc4)
    %d = tt.load %a, %t {cachePolicy = #tt.cache_policy<a = none, b = evict_last>} : !tt.ptr<f32> loc(#loc6)
    tt.return loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc2 = loc("/tmp/my dir/k.py":7:9)
#loc3 = loc("/x/triton/language/standard.py":314:12)
#loc5 = loc(callsite(#loc3 at #loc4))
#loc6 = loc(fused[#loc1, "/tmp/f.py":3:4])
"""


@pytest.fixture
def operations():
    return {operation.name: operation for operation in parse(TEXT).operations()}


def test_the_module_s_frame():
    module = parse(TEXT)
    assert module.kernel.name == "k"
    assert [name for name, _ in module.kernel.arguments] == ["%a", "%n"]
    assert module.warps == 8
    assert list(module.layouts) == ["#blocked"]


def test_strings_cannot_mislead(operations):
    assert operations["tt.assert"].strings == ['a loc(here) {brace} : colon -> "quoted" %x \n']
    assert operations["tt.assert"].operands == ["%t"]


def test_locations_name_the_author_s_line(operations):
    assert str(operations["tt.assert"].location) == "/tmp/my dir/k.py:7"
    assert operations["tt.reduce"].location.file.endswith("standard.py")
    assert str(operations["tt.reduce"].location.user) == "/tmp/my dir/k.py:7"
    assert str(operations["arith.constant"].location) == "unknown place"
    assert str(operations["tt.load"].location) == "/tmp/f.py:3"
    assert str(operations["scf.if"].location) == "/tmp/my dir/k.py:7"


def test_generic_forms_and_regions(operations):
    reduce = operations["tt.reduce"]
    assert reduce.results == ["%r#0", "%r#1"]
    assert reduce.integer("axis") == 0
    assert [name for name, _ in reduce.regions[0].block.arguments] == ["%p", "%q", "%u", "%v"]
    assert [str(type) for type in reduce.types[1]] == ["f32", "f32"]
    assert reduce.types[0][0].layout == "#blocked"
    assert len(operations["scf.if"].regions) == 2


def test_attributes(operations):
    assert operations["tt.load"].attributes["cachePolicy"].startswith("#tt.cache_policy")
    with pytest.raises(FpsanError, match="no attribute 'axis'"):
        operations["tt.load"].integer("axis")


def test_types():
    pointer = parse_type("tensor<16x1x!tt.ptr<bf16>, #blocked>")
    assert pointer.shape == (16, 1)
    assert pointer.element.pointee.name == "bf16"
    assert parse_element("!tt.tensordesc<tensor<4x8xf16>>").block == (4, 8)
    assert parse_element("!tt.tensordesc<4x8xf16, #shared>").block == (4, 8)
    assert parse_type("!ttg.memdesc<64x32xf16, #shared, #smem, mutable>").shape == (64, 32)
    with pytest.raises(FpsanError, match="'f80' is not supported"):
        parse_type("tensor<4xf80>")


def test_splitting_minds_brackets_and_arrows():
    assert split_top("a<b, c>, (d, e) -> f, [g]") == ["a<b, c>", "(d, e) -> f", "[g]"]


def test_text_that_is_not_understood_is_refused():
    with pytest.raises(FpsanError, match="not understood"):
        parse("tt.func public @k() {\n  ??? what\n}")
    with pytest.raises(FpsanError, match="one public function"):
        _ = parse("module {\n}").kernel
