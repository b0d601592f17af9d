"""Generated digits, for the examples about images: a glyph of 5 x 7 pixels somewhere in an image of 12 x 12, with noise."""
import numpy as np

GLYPHS = """
 ###    #    ###  #####    #  #####   ##  #####  ###   ###
#   #  ##   #   #    #    ##  #      #        # #   # #   #
#  ##   #       #   #    # #  ####  #        #  #   # #   #
# # #   #      #     #  #  #      # ####    #    ###   ####
##  #   #     #       # #####     # #   #   #   #   #     #
#   #   #    #    #   #    #  #   # #   #   #   #   #    #
 ###   ###  #####  ###     #   ###   ###    #    ###   ##
""".strip("\n").split("\n")
SIZE = 12


def glyph(digit: int) -> np.ndarray:
    """The digit as (7, 5): 1.0 for ink, 0.0 for paper."""
    return np.array([[pixel == "#" for pixel in f"{row:60}"[6 * digit : 6 * digit + 5]] for row in GLYPHS], np.float32)


def digits(count: int, seed: int, noise: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Images (count, 1, 12, 12) in float32, and their labels (count,)."""
    random = np.random.default_rng(seed)
    labels, images = random.integers(0, 10, count), np.zeros((count, 1, SIZE, SIZE), np.float32)
    for image, label in zip(images, labels):
        top, left = random.integers(0, SIZE - 6), random.integers(0, SIZE - 4)
        image[0, top : top + 7, left : left + 5] = glyph(label)
    return np.clip(images + noise * random.normal(size=images.shape), 0, 1).astype(np.float32), labels


def as_text(images: np.ndarray) -> str:
    """Images (n, 12, 12), next to each other, two characters for a pixel: the darker, the more ink."""
    shades = np.array(list(" .:*#"))[np.clip(np.asarray(images) * 5, 0, 4).astype(int)]
    return "\n".join("  ".join("".join(np.repeat(row, 2)) for row in rows) for rows in shades.swapaxes(0, 1))
