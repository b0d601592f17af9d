"""models: transformers, and what it takes to train and use them."""
import minigrad.nn as _nn  # type: ignore  # first: an ImportError if a user's file shadows nn, before others fail
from models.attention_maps import attention_maps
from models.checkpoint import Checkpoint, CheckpointError
from models.config import TransformerConfig
from models.data import Corpus, load_corpus
from models.generate import generate, generate_batch
from models.loading import load, respond
from models.recipes import PRESETS
from models.tasks import TASKS
from models.tokenizers import Tokenizer, Vocabulary
from models.train import Trainer, TrainingConfig, TrainingError
from models.transformer import CausalTransformer

__all__ = [
    "PRESETS", "TASKS", "CausalTransformer", "Checkpoint", "CheckpointError", "Corpus", "Tokenizer", "Trainer",
    "TrainingConfig", "TrainingError", "TransformerConfig", "Vocabulary", "attention_maps", "generate", "generate_batch",
    "load", "load_corpus", "respond",
]
