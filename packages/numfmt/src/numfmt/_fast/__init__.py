"""Fast rounding of whole arrays, with the results of ``numfmt._engine`` bit for bit.

``plan`` decides from a format's facts how it is done, ``chunks`` does it in NumPy, ``jit`` with numba, ``device`` on
CUDA tensors.
"""
