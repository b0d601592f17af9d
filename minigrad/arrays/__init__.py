"""The plain arrays inside tensors: dtypes and devices, when they were written to, and other libraries' arrays."""
