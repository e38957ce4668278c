"""All faults; a module that defines some is named here."""

from . import (
    faults_cann,
    faults_device,
    faults_driver,
    faults_frameworks,
    faults_install,
    faults_job,
    faults_python,
)
from .fault import FAULTS

MODULES = (
    faults_cann,
    faults_install,
    faults_driver,
    faults_frameworks,
    faults_python,
    faults_job,
    faults_device,
)

__all__ = ["FAULTS", "MODULES"]
