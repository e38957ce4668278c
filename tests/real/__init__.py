"""The whole story with the real MindSpore and its dataset cache server (`pytest -m real_mindspore`)."""
