import numpy as np
import pytest

import minigrad as mg
import nn

B, CHANNELS, HEIGHT, WIDTH, SIZE = 2, 3, 4, 6, 2


@pytest.fixture
def images(random):
    return random.normal(size=(B, CHANNELS, HEIGHT, WIDTH))


def test_patches_row_by_row(images):
    patches = nn.patchify(mg.tensor(images), SIZE)
    assert patches.shape == (B, 6, CHANNELS * SIZE * SIZE)
    for row in range(2):
        for column in range(3):
            tile = images[:, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
            np.testing.assert_array_equal(patches.array[:, 3 * row + column], tile.reshape(B, -1))


def test_unpatchify_undoes_it(images):
    patches = nn.patchify(mg.tensor(images), SIZE)
    np.testing.assert_array_equal(nn.unpatchify(patches, SIZE, HEIGHT, WIDTH).array, images)


def test_embedding_is_a_convolution_with_stride(images):
    layer = nn.PatchEmbedding(SIZE, CHANNELS, 5).double()
    weight = layer.project.weight.array.reshape(5, CHANNELS, SIZE, SIZE)
    y = layer(mg.tensor(images)).array
    for row in range(2):
        for column in range(3):
            tile = images[:, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
            expected = np.einsum("bcij,ecij->be", tile, weight) + layer.project.bias.array
            np.testing.assert_allclose(y[:, 3 * row + column], expected, atol=1e-14)


def test_gradients(images):
    layer, x = nn.PatchEmbedding(SIZE, CHANNELS, 5).double(), mg.tensor(images, requires_grad=True)
    assert mg.gradcheck(layer, x)
    assert mg.gradcheck_module(layer, x).verdict == "pass"
    assert mg.gradcheck(lambda x: nn.unpatchify(nn.patchify(x, SIZE) ** 2, SIZE, HEIGHT, WIDTH), x)
