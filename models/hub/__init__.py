"""Folders in the Hugging Face format, read and written."""
from models.hub.folder import Folder, is_folder, read, write
from models.hub.tokenizer import read as read_tokenizer
from models.hub.weights import DTYPES as _NAMES

DTYPES = tuple(_NAMES.values())  # in which a folder is written

__all__ = ["DTYPES", "Folder", "is_folder", "read", "read_tokenizer", "write"]
