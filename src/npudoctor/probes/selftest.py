"""Lets one framework compute something small. Arguments: its name, the device: cpu, npu or cuda, and
"without-numpy" where NumPy is not installed.

A wrong result is an AssertionError. One line of JSON when all is well.
"""

import sys
import time


def expect(right: bool, text: str) -> None:
    """Raise AssertionError where it is not right; not by `assert`, which PYTHONOPTIMIZE removes."""
    if not right:
        raise AssertionError(text)


def torch_on(device: str) -> None:
    """Compute a product, a convolution and a gradient, and exchange arrays with NumPy in both directions."""
    import torch

    if device == "npu":
        import torch_npu  # noqa: F401
    eye = torch.eye(4, device=device)
    expect(torch.equal((eye @ eye).cpu(), torch.eye(4)), "a matrix product is wrong")
    weight = torch.ones(1, 1, 3, 3, device=device, requires_grad=True)
    out = torch.nn.functional.conv2d(torch.ones(1, 1, 8, 8, device=device), weight)
    # The product of a 3x3 kernel of ones with ones is nine: exact in every precision.
    expect(float(out.detach().cpu()[0, 0, 0, 0]) == 9.0, "a convolution is wrong")
    # Each weight meets 6x6 places of the input: 36.
    out.sum().backward()
    expect(float(weight.grad.cpu()[0, 0, 0, 0]) == 36.0, "a gradient is wrong")
    if "without-numpy" in sys.argv:
        return
    array = out.detach().cpu().numpy()
    expect(float(torch.from_numpy(array).sum()) == 324.0, "what comes back from NumPy is wrong")


def mindspore_on(device: str) -> None:
    """Run MindSpore's own test, and exchange arrays with NumPy in both directions."""
    import mindspore
    import numpy

    if device == "npu":
        mindspore.set_context(device_target="Ascend")
    mindspore.run_check()
    ones = mindspore.Tensor(numpy.ones((2, 2)), mindspore.float32)
    expect(float((ones + 1).asnumpy().sum()) == 8.0, "an addition is wrong")


def paddle_on(device: str) -> None:
    """Run Paddle's own test, and exchange arrays with NumPy in both directions."""
    import numpy
    import paddle

    if device == "npu":
        paddle.set_device("npu")
        tensor = paddle.to_tensor(numpy.ones((2, 2), dtype="float32"))
    else:
        paddle.utils.run_check()
        tensor = paddle.to_tensor(numpy.ones((2, 2), dtype="float32"))
    expect(float((tensor @ tensor).numpy().sum()) == 8.0, "a matrix product is wrong")


# By the name that the check gives.
TESTS = {"torch": torch_on, "mindspore": mindspore_on, "paddle": paddle_on}


def run_test() -> None:
    """Run the test of the framework that is named."""
    started = time.time()
    TESTS[sys.argv[1]](sys.argv[2])
    answer({"seconds": round(time.time() - started, 3)})  # type: ignore[name-defined]  # noqa: F821


watch(run_test)  # type: ignore[name-defined]  # noqa: F821
