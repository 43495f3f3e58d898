"""Calls that are done again without asking again: what is recorded, what is replayed, and what never is.

The kernels here are stand-ins that write down how they are launched, so that no GPU is needed; CPU tensors have the
addresses.
"""

import inspect
import threading
import types

import pytest

import tritongemm
from tritongemm import eager, launches

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
pytestmark = [pytest.mark.torch, pytest.mark.triton]


class Run:
    """What a compiled kernel's `run` is: callable, with the sizes of the memory it wants."""

    def __init__(self, log, scratch=0):
        self.log, self.global_scratch_size, self.profile_scratch_size = log, scratch, 0

    def __call__(self, x, y, z, stream, function, metadata, launch_metadata, enter, leave, *arguments):
        self.log.append(((x, y, z), stream, function, metadata, arguments))


class Compiled:
    function, packed_metadata = "function", "metadata"

    def __init__(self, log, scratch):
        self.run = Run(log, scratch)


def signature(a_ptr, b_ptr, out_ptr, M, stride, BLOCK=16, MODE="ieee"):
    """The parameters of the stand-ins."""


class Parameter:
    def __init__(self, name):
        self.is_constexpr = name in ("BLOCK", "MODE")


class Kernel:
    """A stand-in for a kernel: launching it tells Triton's hooks, as a launch does."""

    def __init__(self, scratch=0):
        self.signature = inspect.signature(signature)
        self.params = [Parameter(name) for name in self.signature.parameters]
        self.direct, self.replayed = [], []
        self.compiled = Compiled(self.replayed, scratch)

    def __getitem__(self, grid):
        def launched(*arguments, **constants):
            triton.knobs.runtime.launch_enter_hook(None)
            self.direct.append((grid, arguments, constants))
            return self.compiled

        return launched


@pytest.fixture
def tensors():
    # More than 64 bytes each, so that addresses are aligned.
    made = [torch.zeros(8, 16) for _ in range(3)]
    assert all(x.data_ptr() % 16 == 0 for x in made)
    return made


@pytest.fixture
def quick(monkeypatch):
    """The table of `eager`, empty, with a stand-in for torch's CUDA."""
    monkeypatch.setattr(eager, "_plans", {})
    known = eager._looked_up()
    monkeypatch.setattr(known, "current_device", lambda: -1)  # where CPU tensors say they are
    monkeypatch.setattr(known, "current_stream", lambda device: 77)
    return eager


def recorded(kernel, a, b, out, **constants):
    with launches.record() as record:
        launches.launch(kernel, (4, 2), a, b, out, 8, 16, **constants)
    return record


def test_a_plan_replays_a_launch_with_other_addresses(tensors):
    kernel = Kernel()
    a, b, out = tensors
    plan = recorded(kernel, a, b, out, BLOCK=32, num_warps=4).plan([a, b, out])
    others = [torch.zeros(8, 16) for _ in range(3)]
    plan.replay(5, [x.data_ptr() for x in others])
    addresses = tuple(x.data_ptr() for x in others)
    assert kernel.replayed == [((4, 2, 1), 5, "function", "metadata", (*addresses, 8, 16, 32, "ieee"))]
    assert len(kernel.direct) == 1


def test_triton_3_9_is_started_without_the_python_around_its_launcher(tensors):
    kernel, started = Kernel(), []
    run = kernel.compiled.run
    run.launch = lambda *given: started.append(given)
    run.launch_cooperative_grid, run.launch_pdl = False, True
    run.arg_annotations, run.kernel_signature = "annotations", "signature"
    recorded(kernel, *tensors).plan(tensors).replay(5, (1, 2, 3))
    assert kernel.replayed == []
    assert started == [
        (4, 2, 1, 5, "function", False, True, "metadata", None, None, None, None, None, "annotations", "signature",
         (1, 2, 3, 8, 16, 16, "ieee"))
    ]  # fmt: skip


class Descriptor:
    """As much of a host descriptor as launches look at."""

    def __init__(self, base):
        self.base, self.shape, self.strides, self.block_shape = base, [8, 16], [16, 1], [8, 8]


@pytest.fixture
def described(monkeypatch, tensors):
    """A kernel whose factors are descriptors, and what its launches and encodings were."""
    from triton.backends.nvidia import driver

    kernel, started, encodings = Kernel(), [], []
    run = kernel.compiled.run
    run.launch = lambda *given: pytest.fail("the launcher that takes descriptors apart")
    run.launch_cooperative_grid = run.launch_pdl = False
    run.arg_annotations, run.kernel_signature = "annotations", "signature"
    kernel.compiled.metadata = types.SimpleNamespace(tensordesc_meta=["first", "second"])

    def encode(descriptor, metadata, _):
        encodings.append((descriptor.base.data_ptr(), metadata))
        return [("encoded", descriptor.base.data_ptr(), metadata), *descriptor.shape, *descriptor.strides]

    monkeypatch.setattr(driver, "make_tensordesc_arg", encode)
    monkeypatch.setattr(launches, "_launcher_in_c", lambda: lambda *given: started.append(given[-1]))
    a, b, out = tensors
    plan = recorded(kernel, Descriptor(a), Descriptor(b.T), out).plan(tensors)
    return plan, started, encodings


def test_descriptors_are_encoded_once_per_address(described):
    plan, started, encodings = described
    for addresses in ((16, 32, 48), (16, 32, 64), (16, 80, 48)):
        plan.replay(5, addresses)
        a, b, out = addresses
        extents = (8, 16, 16, 1)
        assert started[-1] == (
            ("encoded", a, "first"), *extents, ("encoded", b, "second"), *extents, out, 8, 16, 16, "ieee",
        )  # fmt: skip
    assert encodings == [(16, "first"), (32, "second"), (80, "second")]


def test_encoded_descriptors_do_not_pile_up(described, monkeypatch):
    plan, _, encodings = described
    monkeypatch.setattr(launches, "_MOST_ADDRESSES", 2)
    for address in (16, 32, 48, 16):
        plan.replay(5, (address, 64, 80))
    assert [address for address, which in encodings if which == "first"] == [16, 32, 48, 16]


def test_a_descriptor_of_other_memory_is_not_replayed(described, tensors):
    a, b, out = tensors
    assert recorded(Kernel(), Descriptor(torch.zeros(8, 16)), b, out).plan(tensors) is None
    assert recorded(Kernel(), Descriptor(a), b, out).plan(tensors) is None  # a launcher without descriptors


def test_addresses_go_where_they_were(tensors):
    kernel = Kernel()
    a, b, out = tensors
    recorded(kernel, out, a, b).plan([a, b, out]).replay(5, (1, 2, 3))
    assert kernel.replayed[0][4][:3] == (3, 1, 2)


def test_views_of_the_callers_tensors_are_these_tensors(tensors):
    a, b, out = tensors
    assert recorded(Kernel(), a.T, b.view(16, 8), out[None]).plan([a, b, out]) is not None


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_launch_on_memory_of_its_own_is_not_replayed(tensors, which):
    given = list(tensors)
    given[which] = torch.zeros(8, 16)
    assert recorded(Kernel(), *given).plan(tensors) is None


def test_a_workspace_is_made_anew_and_shared_by_the_launches_of_a_call(tensors):
    first, second = Kernel(), Kernel()
    a, b, out = tensors
    with launches.record() as record:
        partial = launches.workspace(torch.empty(2, 8, 16, dtype=torch.float64))
        launches.launch(first, (4,), a, b, partial, 8, 16)
        launches.launch(second, (1,), partial, a, out, 8, 16)
    plan = record.plan(tensors)
    made = []

    def empty_like(template):
        made.append(torch.empty_like(template))
        return made[-1]

    plan.empty_like = empty_like
    plan.replay(5, (16, 32, 48))
    (whole,) = made
    assert (whole.shape, whole.dtype, whole.is_contiguous()) == ((2, 8, 16), torch.float64, True)
    assert first.replayed[0][4][:3] == (16, 32, whole.data_ptr())
    assert second.replayed[0][4][:3] == (whole.data_ptr(), 16, 48)
    assert launches.workspace(a) is a  # outside of a recording it means nothing


def test_one_tensor_in_two_places_is_not_replayed(tensors):
    a, _, out = tensors
    assert recorded(Kernel(), a, a, out).plan([a, a, out]) is None


def test_a_launch_that_allocates_is_not_replayed(tensors):
    assert recorded(Kernel(scratch=64), *tensors).plan(tensors) is None


def test_a_launch_that_went_another_way_is_noticed(tensors):
    kernel = Kernel()
    with launches.record() as record:
        launches.launch(kernel, (1,), *tensors, 8, 16)
        kernel[(1,)](*tensors, 8, 16)
    assert record.plan(tensors) is None


def test_what_says_so_is_not_replayed(tensors):
    with launches.record() as record:
        launches.launch(Kernel(), (1,), *tensors, 8, 16)
        launches.forgo()
    assert record.plan(tensors) is None
    launches.forgo()  # outside of a recording it means nothing


def test_a_recording_ends_with_its_block_even_after_an_error(tensors):
    hooks = list(triton.knobs.runtime.launch_enter_hook.calls)
    with pytest.raises(RuntimeError), launches.record() as record:
        raise RuntimeError
    launches.launch(Kernel(), (1,), *tensors, 8, 16)
    assert record.launches == []
    assert triton.knobs.runtime.launch_enter_hook.calls == hooks


def kept(quick, kernel, tensors, out=None, settings=("ieee",)):
    a, b, result = tensors
    plan = recorded(kernel, a, b, result).plan([a, b, result])
    quick.keep((a, b, None, None), result, out, settings, plan)


def test_a_call_of_the_same_kind_is_replayed_into_new_memory(quick, tensors):
    kernel = Kernel()
    kept(quick, kernel, tensors)
    a, b = torch.zeros(8, 16), torch.zeros(8, 16)
    result = quick.quick(a, b, None, None, None, ("ieee",))
    assert result.shape == (8, 16)
    ((_, stream, _, _, arguments),) = kernel.replayed
    assert stream == 77
    assert arguments[:3] == (a.data_ptr(), b.data_ptr(), result.data_ptr())


def test_a_call_of_another_kind_is_not(quick, tensors):
    kernel = Kernel()
    kept(quick, kernel, tensors)
    a, b, out = (torch.zeros(8, 16) for _ in range(3))
    for operands, given, settings in (
        ((a, b, None, None), None, ("tf32",)),
        ((a.T, b, None, None), None, ("ieee",)),
        ((a.double(), b, None, None), None, ("ieee",)),
        ((a, b, a, None), None, ("ieee",)),
        ((a, b, None, None), out, ("ieee",)),
        ((a[:4], b, None, None), None, ("ieee",)),
        ((a, b.numpy(), None, None), None, ("ieee",)),
        ((a, b, None, None), None, (["ieee"],)),
    ):
        assert quick.quick(*operands, given, settings) is None
    assert kernel.replayed == []


def test_an_address_that_is_no_multiple_of_16_is_not(quick, tensors):
    kernel = Kernel()
    kept(quick, kernel, tensors)
    odd = torch.zeros(129)[1:].view(8, 16)
    assert quick.quick(odd, tensors[1], None, None, None, ("ieee",)) is None
    assert kernel.replayed == []


def test_a_result_on_an_operand_is_not(quick, tensors):
    kernel = Kernel()
    a, b, out = tensors
    kept(quick, kernel, tensors, out=out)
    assert quick.quick(a, b, None, None, out, ("ieee",)) is out
    assert len(kernel.replayed) == 1
    assert quick.quick(a, b, None, None, a, ("ieee",)) is None
    whole = torch.zeros(9, 16)
    assert quick.quick(whole[:8], b, None, None, whole[1:], ("ieee",)) is None
    assert len(kernel.replayed) == 1


def test_a_result_on_c_itself_is_replayed_as_such(quick, tensors):
    kernel = Kernel()
    a, b, out = tensors
    plan = recorded(kernel, a, b, out).plan([a, b, out])
    quick.keep((a, b, out, None), out, out, ("ieee",), plan)
    other = torch.zeros(8, 16)
    assert quick.quick(a, b, other, None, other, ("ieee",)) is other
    assert kernel.replayed[0][4][:3] == (a.data_ptr(), b.data_ptr(), other.data_ptr())
    assert quick.quick(a, b, other.clone(), None, other, ("ieee",)) is None
    assert quick.quick(other, b, other, None, other, ("ieee",)) is None
    assert quick.quick(a, b, other, None, None, ("ieee",)) is None
    assert len(kernel.replayed) == 1


def test_what_torch_wants_to_see_is_not(quick, tensors):
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode

    kernel = Kernel()
    kept(quick, kernel, tensors)
    a, b, _ = tensors

    def missed(x=a, y=b):
        assert quick.quick(x, y, None, None, None, ("ieee",)) is None
        assert kernel.replayed == []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    missed(x=a.clone().requires_grad_())
    missed(x=a.as_subclass(type("Sub", (torch.Tensor,), {})))
    missed(x=torch._neg_view(a))
    with Mode():
        missed()
    with FakeTensorMode():
        missed()
    torch.vmap(lambda x: (missed(), x)[1])(torch.zeros(2))
    with torch.no_grad():
        assert quick.quick(a.clone().requires_grad_(), b, None, None, None, ("ieee",)) is not None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forward_mode_is_not(quick, tensors):
    import torch.autograd.forward_ad as forward_ad

    kept(quick, Kernel(), tensors)
    with forward_ad.dual_level():
        assert quick.quick(tensors[0], tensors[1], None, None, None, ("ieee",)) is None


def test_a_profiler_and_a_sanitiser_see_every_launch(quick, tensors, monkeypatch):
    kernel = Kernel()
    kept(quick, kernel, tensors)
    a, b, _ = tensors

    def hook(metadata):
        pass

    triton.knobs.runtime.launch_enter_hook.add(hook)
    try:
        assert quick.quick(a, b, None, None, None, ("ieee",)) is None
        assert recorded(Kernel(), *tensors).plan(tensors) is None
    finally:
        triton.knobs.runtime.launch_enter_hook.remove(hook)
    with monkeypatch.context() as patch:
        patch.setattr(triton.knobs.compilation, "instrumentation_mode", "fpsan")
        assert quick.quick(a, b, None, None, None, ("ieee",)) is None
    assert quick.quick(a, b, None, None, None, ("ieee",)) is not None


def test_another_gpu_than_the_current_one_is_not(quick, tensors, monkeypatch):
    kept(quick, Kernel(), tensors)
    monkeypatch.setattr(eager._looked_up(), "current_device", lambda: 1)
    assert quick.quick(tensors[0], tensors[1], None, None, None, ("ieee",)) is None


def test_the_table_does_not_grow_for_ever(quick, tensors, monkeypatch):
    monkeypatch.setattr(eager, "_MOST_PLANS", 3)
    for i in range(10):
        kept(quick, Kernel(), tensors, settings=(i,))
    assert len(quick._plans) <= 3
    assert quick.quick(tensors[0], tensors[1], None, None, None, (9,)) is not None


def test_public_calls_look_into_the_table_with_all_their_settings(quick, monkeypatch):
    seen = []

    def look(a, b, c, bias, out, settings):
        seen.append(settings)

    monkeypatch.setattr(eager, "quick", look)
    a, b = torch.zeros(2, 3), torch.zeros(3, 2)
    calls = [
        {}, {"precision": "tf32"}, {"alpha": 2}, {"c": torch.zeros(2, 2), "beta": 1}, {"activation": "relu"},
        {"out_dtype": torch.float64}, {"invariant": False}, {"config": "tune"},
    ]  # fmt: skip
    for options in calls:
        tritongemm.mm(a, b, **options)
    assert len(set(seen)) == len(calls)
    tritongemm.bmm(a[None], b[None])
    assert seen[-1] not in seen[:-1]


# ------------------------------------------------------------------------------------------------------ compiled ahead
def test_what_is_compiled_ahead_is_not_launched(tensors):
    kernel, warmed = Kernel(), []
    kernel.warmup = lambda *arguments, grid, **constants: warmed.append((grid, arguments, constants))
    elsewhere = []
    with launches.compiling_ahead():
        launches.launch(kernel, (2,), *tensors, 5, 7, BLOCK=32)
        thread = threading.Thread(target=lambda: elsewhere.append(launches.launch(kernel, (3,), *tensors, 5, 7)))
        thread.start()
        thread.join()
    assert warmed == [((2,), (*tensors, 5, 7), {"BLOCK": 32})]
    assert [grid for grid, _, _ in kernel.direct] == [(3,)], "another thread launches as ever"
    with pytest.raises(ZeroDivisionError), launches.compiling_ahead():
        raise ZeroDivisionError
    launches.launch(kernel, (4,), *tensors, 5, 7)
    assert len(warmed) == 1
    assert kernel.direct[-1][0] == (4,)
