"""Which variables a job's shell lacks, as data: nothing here prints, writes, or changes a variable.

How the lines look in a shell is `render`; what CANN's script sets is `facts.cann`.
"""

from npudoctor.environment.changes import EnvironmentChanges as EnvironmentChanges
from npudoctor.environment.changes import required_changes as required_changes
