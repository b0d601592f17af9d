"""Images as sequences of square patches, each of which is a token."""
from minigrad import Tensor
from nn.checks import positive_int
from nn.linear import Linear
from nn.module import Module


def patchify(images: Tensor, size: int) -> Tensor:
    """(B, channels, height, width) -> (B, patches, channels * size * size), row by row.

    >>> import minigrad as mg
    >>> patchify(mg.arange(16).reshape(1, 1, 4, 4), 2)[0, 1].tolist()
    [2, 3, 6, 7]
    """
    if images.ndim != 4:
        raise ValueError(f"patchify: expected images (B, channels, height, width), got {images.shape}")
    B, channels, height, width = images.shape
    rows, columns = _tiles("patchify", size, height, width)
    tiles = images.reshape(B, channels, rows, size, columns, size)
    return tiles.permute(0, 2, 4, 1, 3, 5).reshape(B, rows * columns, channels * size * size)


def unpatchify(patches: Tensor, size: int, height: int, width: int) -> Tensor:
    """The inverse of `patchify`: the images with these patches."""
    rows, columns = _tiles("unpatchify", size, height, width)
    if patches.ndim != 3 or patches.shape[1] != rows * columns or patches.shape[2] % size**2:
        raise ValueError(f"unpatchify: expected {rows * columns} patches (B, patches, channels * {size**2}), got "
                         f"{patches.shape}")
    B, channels = patches.shape[0], patches.shape[2] // size**2
    tiles = patches.reshape(B, rows, columns, channels, size, size)
    return tiles.permute(0, 3, 1, 4, 2, 5).reshape(B, channels, height, width)


def _tiles(name: str, size: int, height: int, width: int) -> tuple[int, int]:
    """How many patches there are, one above the other and side by side."""
    if height % positive_int(name, "size", size) or width % size:
        raise ValueError(f"{name}: size must divide height and width, got size {size} and an image {height} x {width}")
    return height // size, width // size


class PatchEmbedding(Module):
    """The tokens of an image: y = patchify(images) Wᵀ + b, (B, channels, height, width) -> (B, patches, embed_dim).

    >>> import minigrad as mg
    >>> PatchEmbedding(size=2, channels=1, embed_dim=6)(mg.zeros(3, 1, 8, 8)).shape
    (3, 16, 6)
    """

    def __init__(self, size: int, channels: int, embed_dim: int):
        super().__init__()
        self.size: int = positive_int("PatchEmbedding", "size", size)
        self.project: Linear = Linear(channels * size * size, embed_dim)

    def forward(self, images: Tensor) -> Tensor:
        return self.project(patchify(images, self.size))
