"""What a set of wheels consists of, as a bill of materials: CycloneDX 1.6, JSON.

Read from the wheels themselves: name, version, licence, SHA-256, and who requires whom. No library, as those
list an environment or a lock, and not the very files that are carried; the schema of CycloneDX is asked by a
test. Its serial number and time hang on the content and the commit, so that two builds are the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
import zipfile
from collections.abc import Iterable
from datetime import datetime, timezone
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

Row = dict[str, Any]


def bill(main: Path, wheels: Iterable[Path]) -> str:
    """The bill of what the main wheel is carried with; a wheel for each machine is a row of its own."""
    others = sorted({path.name: path for path in wheels if path.name != main.name}.values())
    read = {path: metadata(path) for path in (main, *others)}
    rows = {path: component(path, head) for path, head in read.items()}
    refs: dict[str, list[str]] = {}
    for path, head in read.items():
        refs.setdefault(canonicalize_name(head["Name"]), []).append(rows[path]["bom-ref"])
    content: Row = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": moment(), "component": {**rows[main], "type": "application"}},
        "components": [rows[path] for path in others],
        "dependencies": [
            {"ref": rows[path]["bom-ref"], "dependsOn": required(head, refs)} for path, head in read.items()
        ],
    }
    content["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content))}"
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def metadata(wheel: Path) -> Message:
    """The head of its METADATA; the long description behind it is not ours to repeat."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(archive.read(name).decode("utf-8"))


def component(wheel: Path, head: Message) -> Row:
    """One row; a file is named by its package URL, as one version has several."""
    name, version = canonicalize_name(head["Name"]), head["Version"]
    url = f"pkg:pypi/{name}@{version}"
    row: Row = {
        "type": "library",
        "bom-ref": f"{url}?file_name={wheel.name}",
        "name": name,
        "version": version,
        "purl": f"{url}?file_name={wheel.name}",
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}],
    }
    licences = licence(head)
    return {**row, "licenses": licences} if licences else row


def licence(head: Message) -> list[Row]:
    """An SPDX expression where the package states one, else its own words."""
    if head["License-Expression"]:
        return [{"expression": head["License-Expression"]}]
    stated = head["License"] or ""
    kinds = [one.split(" :: ")[-1] for one in head.get_all("Classifier", []) if one.startswith("License :: ")]
    names = kinds or ([stated] if 0 < len(stated) < 60 and "\n" not in stated else [])
    return [{"license": {"name": one}} for one in names]


def required(head: Message, refs: dict[str, list[str]]) -> list[str]:
    """Of what it requires, what is carried with it."""
    names = {canonicalize_name(Requirement(text).name) for text in head.get_all("Requires-Dist", [])}
    return sorted(ref for name in names - {canonicalize_name(head["Name"])} for ref in refs.get(name, []))


def moment() -> str:
    """When the last commit was made, where SOURCE_DATE_EPOCH (seconds) says it; else now."""
    told = os.environ.get("SOURCE_DATE_EPOCH")
    when = datetime.fromtimestamp(int(told), timezone.utc) if told else datetime.now(timezone.utc)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
