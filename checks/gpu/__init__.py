"""Checks of the GPU, where a node trains on one instead of an NPU."""
