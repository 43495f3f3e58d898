"""The audit of two kernels: who they are, whether they are the same algebra, how they round, why, and what follows."""
