"""From which sizes on a kernel is faster than NumPy, and threads than one: in elements, if it doesn't say otherwise."""
import numpy as np

# On processors with 512 bits NumPy has vector code for tangents, powers and all logarithms, too.
_EXTENSIONS = np.show_config(mode="dicts").get("SIMD Extensions", {}).get("found", ())  # of this processor
NUMPY_HAS_512_BITS = "AVX512_SKX" in _EXTENSIONS or "X86_V4" in _EXTENSIONS  # older and newer names of one set

# Formulas of single elements:
LARGE = 1 << 12  # where NumPy needs several passes, or branches
VECTORISED = 1 << 17  # where it has vector code for the function: at 65,536 elements, to wake a thread takes what it saves
VECTORISED_IN_512 = VECTORISED if NUMPY_HAS_512_BITS else LARGE
SINGLE_PASS = 1 << 16  # where memory is all that takes time
BYTES = 1 << 19  # the same, for booleans

# Elements that are taken, put or added at indices, sorted, or given another shape:
TAKEN = 1 << 14
FEW_KEYS = 8  # that are the least of a row: up to here, to keep them in order is faster than to partition all

# Copies:
COPIED = 1 << 17  # from which threads are faster
COPIED_SLOWLY = 1 << 14  # the same where the arrays' strides differ

# Sums: up to here they are NumPy's
FEW = 16  # terms; in float32, and any order, their sum is off by 15 roundings at most, 9e-7
SMALL_TO_SUM = 1 << 12  # NumPy's pairwise sum of these is off by 23 roundings at most

# Products, in multiply-adds:
TINY_BATCH = 1 << 12  # fewer take less time than to say where the kernel finds them, so NumPy does it
# From 500,000 on, products in a row gain by a second thread; but in a step of micro helpers fall asleep between them, and
# it takes 0.67 ms instead of 0.55.
PRODUCT_ON_THREADS = 1_000_000
ATTENTION_ON_THREADS = 400_000  # of one of its products

# What threads share, or what takes as long: about 10 us; less runs on the calling thread. The launch itself takes 1 us,
# but what another core has written is fetched from there, which on two cores of an Intel server takes 0.1 us a line of 64
# bytes: a step of micro is 0.8 of what it was at 16,384, and takes as long as with one thread.
WORTH_A_THREAD = 32_768
MOVED = 2  # elements that are only moved, or summed, in the time in which one is computed with
