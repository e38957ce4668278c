"""Trees of CANN as installers leave them, era by era, for the tests of the checks about CANN."""

from __future__ import annotations

from npudoctor.testing import Content, folder, link

ASCEND = "/usr/local/Ascend"
TOOLKIT = f"{ASCEND}/ascend-toolkit"
LATEST = f"{TOOLKIT}/latest"
CANN = f"{ASCEND}/cann"
PARTS = ("compiler", "runtime", "hccl", "opp", "toolkit")
TBE = "opp/built-in/op_impl/ai_core/tbe"


def elf(machine: int = 183) -> bytes:
    """The header of a shared library: 183 is aarch64, 62 x86_64."""
    return b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00" + machine.to_bytes(2, "little") + bytes(44)


def release(
    product: str = "8.1.RC1",
    component: str = "7.7.0.1.238",
    *,
    root: str = TOOLKIT,
    arch: str = "aarch64",
    kernels: str = "",
) -> dict[str, Content]:
    """A release of 5.1 to 8.3 without `latest`; `kernels` is the version of its kernels package."""
    top = f"{root}/{product}"
    wants = 'required_package_opp_kernel_version=">=7.6, <=7.7"\n' if product.startswith("8.1") else ""
    numbers = f"Version={component}\nversion_dir={product}\n{wants}"
    files: dict[str, Content] = {f"{top}/{part}/version.info": numbers for part in PARTS}
    site = f"{top}/python/site-packages"
    files.update(
        {
            f"{top}/{arch}-linux/ascend_toolkit_install.info": (
                f"package_name=Ascend-cann-toolkit\nversion={product}\ninnerversion=V100R001C21SPC001B238\n"
                f"compatible_version=[V100R001C15],[V100R001C18]\narch={arch}\nos=linux\n"
                f"path={top}/{arch}-linux\n"
            ),
            f"{top}/{arch}-linux/lib64/libascendcl.so": elf(183 if arch == "aarch64" else 62),
            f"{top}/lib64": link(f"{arch}-linux/lib64"),
            f"{top}/{TBE}/impl": folder(),
            f"{top}/compiler/ccec_compiler/bin/ccec": "",
            f"{top}/bin": folder(),
            f"{top}/toolkit/tools": folder(),
            f"{site}/te/version.py": f'"""\nversion\n"""\nversion = "{component}"\n',
            f"{site}/hccl/sys_version.py": f"__sys_version__ = '{component}'\n",
            f"{root}/set_env.sh": "",
        }
    )
    if kernels:
        files[f"{top}/opp_kernel/version.info"] = f"Version={kernels}\n"
    return files


def latest(product: str = "8.1.RC1", *, root: str = TOOLKIT, **others: str) -> dict[str, Content]:
    """The real folder `latest` full of relative links; `others` names the release of single parts."""
    names = (*PARTS, "opp_kernel", "python", "bin", "lib64")
    return {f"{root}/latest/{name}": link(f"../{others.get(name, product)}/{name}") for name in names}


def healthy(product: str = "8.1.RC1", component: str = "7.7.0.1.238", **more: str) -> dict[str, Content]:
    """A whole installation of 5.1 to 8.3."""
    files = release(product, component, kernels=component, **more)
    root = more.get("root", TOOLKIT)
    return {**files, **latest(product, root=root)}


def later(version: str = "8.5.0", *, root: str = ASCEND, arch: str = "aarch64") -> dict[str, Content]:
    """A whole installation of 8.5 to 9.x."""
    top = f"{root}/cann-{version}"
    record = f"version={version}\narch={arch}\npath={top}\n"
    return {
        f"{top}/{arch}-linux/ascend_toolkit_install.info": f"package_name=Ascend-cann-toolkit\n{record}",
        f"{top}/{arch}-linux/ascend_ops_install.info": f"package_name=Ascend-cann-910b-ops\n{record}",
        f"{top}/{arch}-linux/lib64/libascendcl.so": elf(183 if arch == "aarch64" else 62),
        f"{top}/lib64": link(f"{arch}-linux/lib64"),
        f"{top}/opp/version.info": f"Version={version}\n",
        f"{top}/{TBE}/impl": folder(),
        f"{top}/share/info/runtime/version.info": f"Version={version}\n",
        f"{top}/toolkit/tools": folder(),
        f"{top}/tools/ccec_compiler/bin/ccec": "",
        f"{top}/bin": folder(),
        f"{top}/python/site-packages/te/version.py": f'version = "{version}"\n',
        f"{top}/python/site-packages/hccl/sys_version.py": f"__sys_version__ = '{version}'\n",
        f"{top}/set_env.sh": "",
        f"{root}/cann": link(f"cann-{version}"),
        f"{root}/ascend-toolkit/latest": link(f"{root}/cann"),
    }


def sourced(top: str = LATEST, **changed: str) -> dict[str, str]:
    """The variables that set_env.sh of a release from 6.0 on leaves; an empty change takes one away."""
    variables = {
        "ASCEND_HOME_PATH": top,
        "ASCEND_TOOLKIT_HOME": top,
        "ASCEND_OPP_PATH": f"{top}/opp",
        "ASCEND_AICPU_PATH": top,
        "TOOLCHAIN_HOME": f"{top}/toolkit",
        "PYTHONPATH": f"{top}/python/site-packages:{top}/{TBE}:",
        "PATH": f"{top}/bin:{top}/compiler/ccec_compiler/bin:{top}/tools/ccec_compiler/bin:/usr/bin",
        "LD_LIBRARY_PATH": f"{top}/lib64:{top}/lib64/plugin/opskernel:{top}/lib64/plugin/nnengine",
    }
    return {name: value for name, value in {**variables, **changed}.items() if value}


def old(root: str = f"{ASCEND}/nnae/latest") -> dict[str, Content]:
    """A whole installation of 20.2 to 5.0.x."""
    return {
        f"{root}/fwkacllib/version.info": "Version=1.78.23.3.230\n",
        f"{root}/fwkacllib/lib64/libascendcl.so": elf(),
        f"{root}/fwkacllib/lib64/te-0.4.0-py3-none-any.whl": "",
        f"{root}/fwkacllib/lib64/topi-0.4.0-py3-none-any.whl": "",
        f"{root}/fwkacllib/lib64/hccl-0.1.0-py3-none-any.whl": "",
        f"{root}/fwkacllib/ccec_compiler/bin/ccec": "",
        f"{root}/fwkacllib/python/site-packages/te/version.py": 'version = "1.78.23.3.230"\n',
        f"{root}/opp/op_impl/built-in/ai_core/tbe/impl": folder(),
    }


def old_variables(root: str = f"{ASCEND}/nnae/latest") -> dict[str, str]:
    """What a hand-made script of that time sets."""
    site = f"{root}/fwkacllib/python/site-packages"
    return {
        "ASCEND_HOME": ASCEND,
        "ASCEND_OPP_PATH": f"{root}/opp/",
        "PYTHONPATH": f"{site}:{site}/hccl:{root}/opp/op_impl/built-in/ai_core/tbe",
        "PATH": f"/usr/bin:{root}/fwkacllib/ccec_compiler/bin",
    }
