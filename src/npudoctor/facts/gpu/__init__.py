"""The GPUs of a node: what the driver says of each, what a job sees, the CUDA and NCCL that it would load.

Whether a GPU is there at all, by its PCI id and its device nodes, is `host.devices`.
"""
