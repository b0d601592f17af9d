"""A small transformer trained on a text, and the text that it writes."""
import minigrad as mg
import models

corpus = models.load_corpus(context=16)
config = models.TransformerConfig(vocabulary_size=len(corpus.tokenizer), context=16, layers=1, heads=2, width=16)
model = models.CausalTransformer(config)
training = models.TrainingConfig(steps=3, batch_size=4, eval_every=3, warmup_steps=1)
trainer = models.Trainer(model, corpus, training)
losses = trainer.train()
print(losses[-1], trainer.step)

prompt = corpus.tokenizer.encode("The ")
tokens = models.generate(model, prompt.tolist(), 20, temperature=0.8, top_k=20, seed=0)
print(corpus.tokenizer.decode(list(tokens)))
ids = mg.tensor(prompt).unsqueeze(0)
logits, loss = model(ids, ids)
loss.backward()
weights = models.attention_maps(model, ids)
print(logits.softmax(-1).shape, {name: maps.shape for name, maps in weights.items()}, models.PRESETS["nano"])
