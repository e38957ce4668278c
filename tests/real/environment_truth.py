"""Imports frameworks and uses them; one line of JSON. Runs in the environments, knows nothing of ours."""

import json
import os
import sys


def torch() -> None:
    import torch

    a = torch.randn(8, 8, requires_grad=True)
    (a @ a).sum().backward()
    convolved = torch.nn.Conv2d(1, 2, 3)(torch.randn(1, 1, 8, 8))
    torch.from_numpy(convolved.detach().numpy())


def torchvision() -> None:
    import torch
    import torchvision.models
    import torchvision.transforms

    torchvision.ops.nms(torch.tensor([[0.0, 0.0, 1.0, 1.0]]), torch.tensor([1.0]), 0.5)


def torchaudio() -> None:
    import torchaudio  # noqa: F401


def mindspore() -> None:
    import mindspore
    import mindspore.dataset
    import mindspore.nn
    import numpy

    ones = mindspore.Tensor(numpy.ones((2, 2)), mindspore.float32)
    mindspore.ops.add(ones, ones).asnumpy()
    mindspore.run_check()
    list(mindspore.dataset.NumpySlicesDataset(numpy.arange(4)).create_dict_iterator())


def paddle() -> None:
    import paddle

    a = paddle.rand([4, 4])
    a.stop_gradient = False
    (a @ a).sum().backward()
    paddle.nn.Conv2D(1, 2, 3)(paddle.rand([1, 1, 8, 8])).numpy()


def tensorflow() -> None:
    import tensorflow

    (tensorflow.ones((2, 2)) @ tensorflow.ones((2, 2))).numpy()


USES = {use.__name__: use for use in (torch, torchvision, torchaudio, mindspore, paddle, tensorflow)}
out = {}
for name in sys.argv[1:]:
    try:
        USES[name]()
        out[name] = "ok"
    except BaseException as error:
        out[name] = f"{type(error).__name__}: {str(error)[:300]}"
print("\nTRUTH " + json.dumps(out), flush=True)
os._exit(0)  # what the frameworks do at the end is not asked
