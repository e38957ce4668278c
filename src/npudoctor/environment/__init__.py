"""Which variables a job's shell lacks, as data: nothing here prints, writes, or changes a variable.

How the lines look in a shell is `render`; what CANN's script sets is `facts.cann`.
"""

from npudoctor.environment.wanted import Wanted as Wanted
from npudoctor.environment.wanted import wanted as wanted
