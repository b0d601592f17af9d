"""Sabotages of what training on several ranks needs, as far as one process shows it: ranks of their own run the code as it is."""
from sabotage.edit import edits

RANKS = ("tests/models/test_distributed.py", "-k", "not losses_are and not goes_on and not ends_all and not end_all")

SABOTAGES = [
    *edits(RANKS, "minigrad.random", {
        "portion: every rank draws the first": ("key_of_batch", "_rank * count", "0"),
        "portion: positions of one element": ("key_of_batch", "_rank * count", "_rank"),
        "portion: ranks draw other keys": ("key_of_batch", "random_raw()", "random_raw(_rank + 1)[-1]"),
        "portion: it never ends": ("portion", "_rank = before", "pass"),
    }),
    *edits(RANKS, "minigrad.fast.compiling.capture", {
        "leaves: all at the end": ("Capture.early", "return early", "return {}"),
        "leaves: complete at their first gradient": ("Capture.early", "min(op.order", "max(op.order"),
        "replay: no hooks of leaves": ("_Arrival.__call__", "for hook in node.accumulation_hooks", "for hook in ()"),
        "replay: gradients in its own memory": ("Capture._arrival", "MEMORY.get(node)", "None"),
    }),
    *edits(RANKS, "minigrad.runner", {
        "eager: no hooks of leaves": ("Runner.accumulate", "for hook in node.accumulation_hooks", "for hook in ()"),
    }),
    *edits(RANKS, "models.distributed", {
        "sums: of every batch": ("GradientSums._arrived", "not self.is_open", "False"),
        "sums: a bucket with its first gradient": ("GradientSums._arrived", "and not self.missing[len(self.requests)]", ""),
        "sums: buckets wait for the end": ("GradientSums._arrived", "self._send()", "break"),
        "sums: what is incomplete stays": ("GradientSums.__exit__", "self._send()", "break"),
        "sums: gradients elsewhere are not copied": ("GradientSums._put_into_bucket", "view[...] = gradient", "pass"),
        "sums: the optimizer sees the old gradient": ("GradientSums._put_into_bucket", "parameter.grad = mg.from_numpy(view)", "pass"),
        "buckets: of any size": ("cut_into_buckets", "needed > room", "False"),
        "launched: any words": ("launched_size", '.isdecimal()', ""),
        "launched: Slurm's job for its step": ("launched_size", 'if "PMIX_RANK" in environment else SIZES', ""),
        "launched: one rank is several": ("connected", "launched_size() <= 1", "False"),
        "threads: all cores for each": ("Ranks.default_threads", "len(own) // sharing", "len(own)"),
        "threads: divided by ranks elsewhere": ("Ranks.default_threads", "not own.isdisjoint(other)", "True"),
        "difference: what others have alone": ("Ranks.difference", "{**everyone[0], **others}", "everyone[0]"),
        "difference: what others have not": ("Ranks.difference", "{**everyone[0], **others}", "others"),
    }),
    *edits(RANKS, "models.train", {
        "train: ranks weigh alike": ("Trainer._part_of_loss", "own_targets / targets", "1 / self.ranks.size"),
        "train: every rank has the first portion of masks": (
            "Trainer._part_of_loss", "mg.random.portion(self.ranks.rank, self.ranks.size)", "contextlib.nullcontext()"),
        "train: a part of the loss is all of it": ("Trainer._part_of_loss", "return share *", "return"),
        "train: gradients of all of the loss": ("Trainer._part_of_loss", "self.config.accumulation / share",
            "self.config.accumulation"),
    }),
    *edits(RANKS, "models.commands.train", {
        "train: the batch need not be divided": ("check_divisible", "size % ranks.size", "False"),
        "train: the final batch need not be divided": ("check_divisible", '("batch_size", "final_batch_size")', '("batch_size",)'),
    }),
]
