"""The libraries of the extra `hub`, imported when they are needed."""
import importlib
import types

from models.checkpoint import CheckpointError


def needed(library: str) -> types.ModuleType:
    """The library; CheckpointError, which says how to install it, if it isn't there."""
    try:
        return importlib.import_module(library)
    except ImportError:
        raise CheckpointError(f'models in the Hugging Face format need the library {library}, which isn\'t installed: '
                              'pip install "minigrad[hub]"') from None
