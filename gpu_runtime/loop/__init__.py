"""The managed algorithm without tensors: what a batch is, what it is worth, what refuses it."""
