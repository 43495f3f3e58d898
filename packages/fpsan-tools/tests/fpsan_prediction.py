"""What fpsan_tools says that a recorded launch gives, computed on a CPU."""

import fpsan_cases
from fpsan_recordings import kept

import fpsan_tools
from fpsan_tools import algebra


def case(case, release, operands):
    """Bits of one operation on one type, by the algebra's rules."""
    return fpsan_cases.expected(case, algebra.get(release), operands)


def launch(recording, release):
    """The kept bits of a recording's output, by the CPU engine."""
    arrays = [fpsan_tools.typed(bits, dtype) for bits, dtype in recording.arguments()]
    version = release if recording.domain == "payload" else None
    options = dict(recording.options)
    fpsan_tools.run(
        recording.kernel,
        recording.grid,
        *arrays,
        *recording.scalars,
        domain=recording.domain,
        version=version,
        **options,
    )
    return kept(arrays[-1].array)
