"""fake_host(): a machine made of plain values, for the tests of checks, ours and third parties'.

It is the real Host with a disk in memory. What is not given does not exist: a missing file, a
program that is not found (127), no process, no segment, no socket.
"""

from npudoctor.host.resources import Limit as Limit
from npudoctor.host.resources import Memory as Memory
from npudoctor.testing.disk import Content as Content
from npudoctor.testing.disk import FileNode as FileNode
from npudoctor.testing.disk import MemoryDisk as MemoryDisk
from npudoctor.testing.disk import device as device
from npudoctor.testing.disk import folder as folder
from npudoctor.testing.disk import link as link
from npudoctor.testing.disk import unreadable as unreadable
from npudoctor.testing.fakes import OUR_PID as OUR_PID
from npudoctor.testing.fakes import SITE as SITE
from npudoctor.testing.fakes import TICKS as TICKS
from npudoctor.testing.fakes import UPTIME as UPTIME
from npudoctor.testing.fakes import FakeClock as FakeClock
from npudoctor.testing.fakes import FakeCommands as FakeCommands
from npudoctor.testing.fakes import FakeResources as FakeResources
from npudoctor.testing.fakes import package_files as package_files
from npudoctor.testing.fakes import process_files as process_files
from npudoctor.testing.machine import CheckAnswer as CheckAnswer
from npudoctor.testing.machine import ask as ask
from npudoctor.testing.machine import fake_host as fake_host
from npudoctor.testing.network import FakeNetwork as FakeNetwork
from npudoctor.testing.network import interface as interface

# By these names the tests of third parties import them.
Node = FileNode
Asked = CheckAnswer
