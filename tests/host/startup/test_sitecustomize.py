"""A sitecustomize.py that leaves the search path alone, told without running it."""

from __future__ import annotations

import pytest

from npudoctor.host.startup.sitecustomize import adds_no_path

IDLE = [
    "",
    "import os\nos.environ.setdefault('OMP_NUM_THREADS', '1')\n",
    "import warnings\nwarnings.filterwarnings('ignore')\n",
    "import os.path, sys\nif os.path.exists('/x'):\n    sys.stdout.reconfigure(line_buffering=True)\n",
    "try:\n    import apport_python_hook as hook\nexcept ImportError:\n    pass\nelse:\n    hook.install()\n",
    "import coverage\ncoverage.process_startup()\n",
    "from os import path, environ as e\n",
    "import faulthandler as f, signal\nf.register(signal.SIGUSR1)\n",
]
ADDING = [
    "import sys\nsys.path.append('/opt/x')\n",
    "from sys import path\npath.append('/opt/x')\n",
    "import sys as os\nos.path.append('/opt/x')\n",
    "import sys, os\nos = sys\nos.path.append('/opt/x')\n",
    "import os, sys\nfor os in [sys]:\n    os.path.append('/opt/x')\n",
    "import sys\ndef f(os):\n    os.path.append('/opt/x')\nf(sys)\n",
    "import sys\nsys.meta_path.insert(0, x)\n",
    "import sys\ngetattr(sys, 'pa' + 'th').append('/opt/x')\n",
    "import sys\nsys.__dict__['path'].append('/opt/x')\n",
    "import site\nsite.addsitedir('/opt/x')\n",
    "import os\nos.execv('/x', [])\n",
    "exec(open('/x').read())\n",
    "__import__('mine')\n",
    "import mine\n",
    "from . import mine\n",
    "from os import *\n",
    "from os import execv as run\n",
    "import logging\nlogging.sys.path.append('/opt/x')\n",
    "this is no Python",
    "#" * (1 << 17),
]


@pytest.mark.parametrize("text", IDLE)
def test_adds_nothing(text: str) -> None:
    assert adds_no_path(text)


@pytest.mark.parametrize("text", ADDING)
def test_may_add(text: str) -> None:
    assert not adds_no_path(text)
