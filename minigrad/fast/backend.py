"""The backend's array functions, with memory that is reused."""
from ..backend import replaced_by
from .kernels.buffers import copied, empty
from .pool import lasting

replaced_by(empty=empty, lasting=lasting, copied=copied)
