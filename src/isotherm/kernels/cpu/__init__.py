"""CPU twins of the reference operations, compiled by numba; each has the reference's name and signature."""
