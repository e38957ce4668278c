"""Which variables a job's shell lacks, as data: nothing here prints, writes, or changes a variable."""

from npudoctor.environment.wanted import Wanted as Wanted
from npudoctor.environment.wanted import wanted as wanted
