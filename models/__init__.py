"""models: transformers, and what it takes to train and use them."""
from models.checkpoint import Checkpoint, CheckpointError
from models.data import Corpus, RandomBatches, Vocabulary, load_corpus
from models.generate import generate, generate_batch
from models.train import Trainer, TrainingConfig, TrainingError
from models.transformer import PRESETS, CausalTransformer, Preset, TransformerConfig

__all__ = [
    "PRESETS", "CausalTransformer", "Checkpoint", "CheckpointError", "Corpus", "Preset", "RandomBatches", "Trainer",
    "TrainingConfig", "TrainingError", "TransformerConfig", "Vocabulary", "generate", "generate_batch", "load_corpus",
]
