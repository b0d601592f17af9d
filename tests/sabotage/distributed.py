"""Sabotages of what training on several ranks needs, as far as one process shows it: ranks of their own run the code as it is."""
from sabotage.edit import edits

RANKS = ("tests/models/test_distributed.py", "-k", "not losses_are and not goes_on and not ends_all and not end_all")

SABOTAGES = [
    *edits(RANKS, "minigrad.random", {
        "portion: every rank draws the first": ("uniform_of_batch", "_skip(source, rank * count)", "pass"),
        "portion: the generator stays behind": ("uniform_of_batch", "_skip(source, (size - 1 - rank) * count)", "pass"),
        "portion: the half that waits is thrown away": ("_skip", 'count and source.bit_generator.state["has_uint32"]', "False"),
        "portion: the state has other bits": ("_skip", "max(count - 1, 0) // 2", "count // 2"),
        "portion: it never ends": ("portion", "_portion = before", "pass"),
    }),
    *edits(RANKS, "minigrad.tape", {
        "leaves: all at the end": ("walk", "uses_of_leaves(roots) if runner.completes_leaves_early and found is None else {}", "{}"),
        "leaves: complete at their first gradient": ("_Arrived.count_uses", "self.uses[parent] == 0", "True"),
        "leaves: used once each": ("uses_of_leaves", "uses[parent] += 1", "uses[parent] = 1"),
    }),
    *edits(RANKS, "minigrad.capture", {
        "replay: no hooks of leaves": ("_Arrival.__call__", "for hook in node.accumulation_hooks", "for hook in ()"),
        "replay: gradients in its own memory": ("_Arrival.__call__", "if node.grad_memory is not None", "if False"),
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
    *edits(RANKS, "models.commands.train", {
        "train: the batch need not be divided": ("check_divisible", "size % ranks.size", "False"),
        "train: the final batch need not be divided": ("check_divisible", '("batch_size", "final_batch_size")', '("batch_size",)'),
    }),
]
