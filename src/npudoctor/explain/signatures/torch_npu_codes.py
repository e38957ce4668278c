"""What the codes of torch_npu mean, `ERR00100`: a module, and a kind of error, as torch_npu/csrc/core/npu/
NPUException.cpp and torch_npu/utils/_error_code.py put them together."""

from __future__ import annotations

from typing import NamedTuple, Optional

from npudoctor.core.lazy import pattern
from npudoctor.explain.signatures.signatures import Signature

_CODE = pattern(r"(?i)ERR(\d{2})(\d{3})")
_SOURCE = "https://gitee.com/ascend/pytorch/blob/master/torch_npu/csrc/core/npu/NPUException.cpp"
_MODULES = {
    "00": ("PTA", "the adapter itself", "适配层自身"),
    "01": ("OPS", "an operator", "算子"),
    "02": ("DIST", "distributed training", "分布式训练"),
    "03": ("GRAPH", "the graph mode", "图模式"),
    "04": ("PROF", "the profiler", "性能分析工具"),
}


class _ErrorKind(NamedTuple):
    """A kind of error. `environment`: whether the machine is to blame rather than the script."""

    name: str
    zh: str
    category: str
    environment: bool
    cause: str
    cause_zh: str


_SCRIPT, _UNSUPPORTED, _OTHER = "script-bug-not-environment", "operator-unsupported", "other"
_ARGUMENT = (
    "A function was called with an argument that it cannot take; the line above says which.",
    "调用时传入了函数不接受的参数；上一行会指出是哪个。",
)
_BELOW = (
    (
        "A call into {name} failed. This code says only that; the cause stands in the lines after it "
        "(EI0006, EJ0001, a return number) or in the plog."
    ),
    "调用 {name} 失败。该错误码仅表示这一点；原因见其后的行（EI0006、EJ0001、返回码等）或 plog 日志。",
)
_KINDS = {
    "001": _ErrorKind("invalid parameter", "参数无效", _SCRIPT, False, *_ARGUMENT),
    "002": _ErrorKind("invalid type", "类型无效", _SCRIPT, False, *_ARGUMENT),
    "003": _ErrorKind("invalid value", "取值无效", _SCRIPT, False, *_ARGUMENT),
    "004": _ErrorKind(
        "invalid pointer", "指针无效", _SCRIPT, False,
        "An object was used that was not made or is already gone.", "使用了未创建或已释放的对象。",
    ),
    "005": _ErrorKind(
        "internal error", "内部错误", _OTHER, False,
        "torch_npu met a state that it does not expect; the text after the code says which.",
        "torch_npu 遇到未预期的状态；错误码后的文字会说明。",
    ),
    "006": _ErrorKind(
        "memory error", "内存错误", "out-of-device-memory", True,
        "Memory of the device or the host could not be had.", "无法申请到设备或主机内存。",
    ),
    "007": _ErrorKind(
        "feature not supported", "不支持该特性", _UNSUPPORTED, False,
        "This release of torch_npu or CANN cannot do what the script asks for.",
        "当前版本的 torch_npu 或 CANN 不支持脚本所用的功能。",
    ),
    "008": _ErrorKind(
        "resource not found", "资源未找到", _OTHER, True,
        "A library, a symbol, a file or a device is not there.", "缺少某个库、符号、文件或设备。",
    ),
    "009": _ErrorKind(
        "resource unavailable", "资源不可用", _OTHER, True,
        "Something is there and cannot be used now, such as a device that another process holds.",
        "资源存在但暂时无法使用，例如设备被其他进程占用。",
    ),
    "010": _ErrorKind(
        "system call failed", "系统调用失败", _OTHER, True,
        "The kernel refused a call; the text after the code says which and why.",
        "内核拒绝了某个系统调用；错误码后的文字会说明原因。",
    ),
    "011": _ErrorKind(
        "timeout error", "超时", _OTHER, True,
        "Something did not answer in time: another rank, or the device.",
        "未在限时内得到响应：其他 rank 或设备。",
    ),
    "012": _ErrorKind(
        "permission error", "权限错误", "device-permission", True,
        "The user of the job may not use a file or a device.", "作业用户无权使用某个文件或设备。",
    ),
    "100": _ErrorKind("call acl api failed", "调用 ACL 接口失败", "driver-firmware", True, *_BELOW),
    "200": _ErrorKind("call hccl api failed", "调用 HCCL 接口失败", "network-hccl-link-or-ip", True, *_BELOW),
    "300": _ErrorKind("call ge api failed", "调用 GE 接口失败", _OTHER, False, *_BELOW),
}  # fmt: skip
_APIS = {"100": "ACL", "200": "HCCL", "300": "GE"}


def list_codes() -> list[str]:
    """All of them."""
    return [f"ERR{module}{kind}" for module in _MODULES for kind in _KINDS]


def signature_of_torch_npu(word: str) -> Optional[Signature]:
    """The code as if it were a signature; None where it is none of theirs."""
    match = _CODE.fullmatch(word.strip())
    if match is None or match[1] not in _MODULES or match[2] not in _KINDS:
        return None
    (module, part, part_zh), kind = _MODULES[match[1]], _KINDS[match[2]]
    code, api = f"ERR{match[1]}{match[2]}", _APIS.get(match[2], "")
    return Signature(
        id=code,
        category=kind.category,
        environment=kind.environment,
        weight=1,
        patterns=(),
        title={
            "en": f"{code}: torch_npu, {module} ({part}): {kind.name}",
            "zh": f"{code}：torch_npu {module}（{part_zh}）：{kind.zh}",
        },
        cause={"en": kind.cause.format(name=api), "zh": kind.cause_zh.format(name=api)},
        remedy={
            "en": (f"npudoctor explain LOG, with the log in which {code} stands: its neighbours say more",),
            "zh": (f"对出现 {code} 的日志执行 npudoctor explain LOG：其前后的行包含更多信息",),
        },
        checks=("npu-health", "driver-firmware") if api == "ACL" else (),
        source=_SOURCE,
        as_of="2026-11",
        codes=(code,),
    )
