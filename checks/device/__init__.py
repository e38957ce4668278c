"""Checks of the Ascend NPU: driver, firmware, device nodes and their health."""
