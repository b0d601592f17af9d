"""Plain arrays as tensors have them: their dtypes and devices, who has written to them, and other libraries' arrays."""
