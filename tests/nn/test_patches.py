"""Images as patches."""
import numpy as np
import pytest

import minigrad as mg
import nn

B, CHANNELS, HEIGHT, WIDTH, SIZE = 2, 3, 4, 6, 2


@pytest.fixture
def images(random):
    return random.normal(size=(B, CHANNELS, HEIGHT, WIDTH))


def tiles(images):
    """The patches, row by row, (B, CHANNELS, SIZE, SIZE) each."""
    return [images[:, :, row : row + SIZE, column : column + SIZE]
            for row in range(0, HEIGHT, SIZE) for column in range(0, WIDTH, SIZE)]


def test_patches_row_by_row_and_back(images):
    patches = nn.patchify(mg.tensor(images), SIZE)
    np.testing.assert_array_equal(patches.array, np.stack([tile.reshape(B, -1) for tile in tiles(images)], axis=1))
    np.testing.assert_array_equal(nn.unpatchify(patches, SIZE, HEIGHT, WIDTH).array, images)
    none = nn.patchify(mg.tensor(images[:0]), SIZE)
    assert none.shape == (0, *patches.shape[1:]) and nn.unpatchify(none, SIZE, HEIGHT, WIDTH).shape == images[:0].shape


def test_embedding_is_a_convolution_with_stride(images):
    layer = nn.PatchEmbedding(SIZE, CHANNELS, 5).double()
    weight = layer.project.weight.array.reshape(5, CHANNELS, SIZE, SIZE)
    expected = [np.einsum("bcij,ecij->be", tile, weight) + layer.project.bias.array for tile in tiles(images)]
    np.testing.assert_allclose(layer(mg.tensor(images)).array, np.stack(expected, axis=1), atol=1e-14)
