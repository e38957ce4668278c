"""All faults; a module that defines some is named here."""

from . import (
    faults_cann,
    faults_device,
    faults_driver,
    faults_frameworks,
    faults_fresh_cann,
    faults_fresh_driver,
    faults_fresh_frameworks,
    faults_fresh_job,
    faults_fresh_python,
    faults_fresh_system,
    faults_install,
    faults_job,
    faults_packages,
    faults_python,
    faults_site,
)
from .fault import FAULTS

MODULES = (
    faults_cann,
    faults_install,
    faults_driver,
    faults_frameworks,
    faults_packages,
    faults_python,
    faults_job,
    faults_site,
    faults_device,
    faults_fresh_cann,
    faults_fresh_driver,
    faults_fresh_frameworks,
    faults_fresh_python,
    faults_fresh_system,
    faults_fresh_job,
)

__all__ = ["FAULTS", "MODULES"]
