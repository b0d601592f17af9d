"""Make the pictures of docs/training.md, from three short trainings:

    python docs/training_pictures.py runs        # trains those that this folder does not have; writes docs/training/*.png
"""
import pathlib
import shutil
import sys

from study.command import main as minigrad

PICTURES = pathlib.Path(__file__).parent / "training"
RUNS = {  # the picture's name: (flags of `minigrad train`, the name that it gives the picture)
    "loss": ("--preset nano --recipe nanogpt --steps 2000", "loss.png"),
    "induction": ("--task induction --seed 0", "attention.png"),
    "reverse": ("--task reverse", "alignment.png"),
}


def main(folder: str) -> None:
    for name, (flags, picture) in RUNS.items():
        run = pathlib.Path(folder, name)
        if not run.exists():
            minigrad(["train", *flags.split(), "--out", str(run)])
        shutil.copy(run / picture, PICTURES / f"{name}.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
