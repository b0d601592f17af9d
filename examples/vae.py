"""A variational autoencoder that learns to draw digits.

    python examples/vae.py

The encoder maps each image to a Gaussian over 8 numbers z, and the decoder maps each z to an image. The loss is a bound on
the negative log-likelihood of the images: the decoder's error, plus the divergence of the Gaussians from the standard one.
"""
import minigrad as mg
import nn
from digits import SIZE, as_text, digits
from nn import functional as F

PIXELS, HIDDEN, LATENT = SIZE * SIZE, 256, 8


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(PIXELS, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, 2 * LATENT))
        self.decoder = nn.Sequential(nn.Linear(LATENT, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, HIDDEN), nn.GELU(),
                                     nn.Linear(HIDDEN, PIXELS))

    def forward(self, x: mg.Tensor) -> tuple[mg.Tensor, mg.Tensor, mg.Tensor]:
        """The logits of the pixels, and the mean and log variance of z."""
        mean, log_variance = self.encoder(x).chunk(2, dim=-1)
        z = mean + mg.randn_like(mean) * (log_variance / 2).exp()  # a draw through which gradients flow
        return self.decoder(z), mean, log_variance


def negative_bound(model: VAE, x: mg.Tensor) -> mg.Tensor:
    """-ELBO in nats per image; the Kullback-Leibler divergence of two Gaussians has a closed form."""
    logits, mean, log_variance = model(x)
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    divergence = 0.5 * (mean**2 + log_variance.exp() - log_variance - 1).sum()
    return (reconstruction + divergence) / len(x)


def main(steps: int = 2000, batch_size: int = 128) -> list[float]:
    mg.manual_seed(0)
    images = mg.from_numpy(digits(5000, seed=0, noise=0.0)[0]).flatten(1)
    model = VAE()
    optimizer = nn.optim.Adam(model.parameters(), lr=2e-3)
    losses = []
    for step in range(steps):
        loss = negative_bound(model, images[mg.randint(0, len(images), (batch_size,))])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 250 == 0 or step == steps - 1:
            print(f"step {step:4}: {losses[-1]:6.2f} nats per image")

    shown = images[:5]
    with mg.no_grad():
        restored, drawn = model(shown)[0].sigmoid(), model.decoder(mg.randn(5, LATENT)).sigmoid()
    for title, pixels in (
            ("images", shown), ("restored from 8 numbers each", restored), ("drawn from random numbers", drawn)):
        print(f"\n{title}\n{as_text(pixels.numpy().reshape(-1, SIZE, SIZE))}")
    return losses


if __name__ == "__main__":
    main()
