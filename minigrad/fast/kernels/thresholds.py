"""The sizes from which on kernels are faster than NumPy, and several threads than one; in elements, unless noted."""
# Elementwise formulas:
LARGE = 1 << 12  # where NumPy needs several passes, or branches
VECTORISED = 1 << 17  # where NumPy has vector code: at 65,536 elements, waking a thread costs as much as it saves
SINGLE_PASS = 1 << 16  # where memory is the bottleneck

# Products, in multiply-adds:
TINY_BATCH = 1 << 12  # fewer take less time than setting up the kernel, so NumPy computes them
# Consecutive products gain from a second thread from 500,000 on; but in a step of preset micro helpers fall asleep between
# them, and it takes 0.67 ms instead of 0.55.
PRODUCT_ON_THREADS = 1_000_000
ATTENTION_ON_THREADS = 400_000  # of one of its products

# Less work than this, about 10 us, runs on the calling thread. The launch itself takes 1 us, but fetching what another core
# wrote takes 0.1 us per line of 64 bytes on two cores of an Intel server: a step of preset micro takes 0.8 of its time with
# 16,384, the same as with one thread.
WORTH_A_THREAD = 32_768
MOVED = 2  # elements moved or summed in the time of computing one
