"""The rows about frameworks as pairs that can be judged, and CANN's two kinds of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from npudoctor.core.lazy import pattern
from npudoctor.knowledge.compatibility import Pair
from npudoctor.knowledge.site import Knowledge
from npudoctor.knowledge.tables import KnowledgeRow
from npudoctor.knowledge.versions import is_train, public_version

if TYPE_CHECKING:
    from packaging.version import Version

_MINOR = pattern(r"\d+\.\d+")


def torch_npu_pairs(knowledge: Knowledge) -> list[Pair]:
    """torch_npu and CANN; a release of a train goes with all that its train goes with."""
    trains = knowledge.rows("torch_npu", "trains")
    pairs = []
    for row in knowledge.rows("torch_npu", "cann"):
        pairs.append(_make_pair(row, "torch_npu"))
        own_train = row.texts("train")
        pairs += [
            Pair(row["torch_npu"], train.texts("cann"), train["source"], train["as_of"])
            for train in trains
            if own_train and any(is_train(name, own_train[0]) for name in train.texts("trains"))
        ]
    return pairs


def find_torch_row(knowledge: Knowledge, torch_npu: str) -> Optional[KnowledgeRow]:
    """The row that says which torch a torch_npu was made for; None when there is none."""
    release = public_version(torch_npu)
    for row in knowledge.rows("torch_npu", "cann"):
        if row.texts("torch") and release is not None and public_version(row["torch_npu"]) == release:
            return row
    return None


def is_listed(knowledge: Knowledge, torch_npu: str) -> bool:
    """Whether any row is about a torch_npu, also one that does not say its torch."""
    release = public_version(torch_npu)
    rows = knowledge.rows("torch_npu", "cann")
    return release is not None and any(public_version(row["torch_npu"]) == release for row in rows)


def find_numpy_row(knowledge: Knowledge, torch: Version) -> Optional[KnowledgeRow]:
    """The row that says which NumPy a torch was built for; None when there is none."""
    from packaging.specifiers import SpecifierSet

    rows = knowledge.rows("torch_npu", "numpy")
    return next(
        (row for row in rows if SpecifierSet(row["versions"]).contains(torch, prereleases=True)), None
    )


def pairs_of(knowledge: Knowledge, table: str, section: str, release: str) -> list[Pair]:
    """The rows of a section with a release, in the key named so, and the CANN that goes with it."""
    return [_make_pair(row, release) for row in knowledge.rows(table, section)]


def find_accepted_components(knowledge: Knowledge, mindspore: str) -> Optional[KnowledgeRow]:
    """The row with the component numbers that a MindSpore accepts; None when there is none."""
    release = public_version(mindspore)
    rows = knowledge.rows("mindspore", "cann_component_versions")
    return next(
        (row for row in rows if release is not None and public_version(row["mindspore"]) == release), None
    )


def product_of(knowledge: Knowledge, component: str) -> Optional[str]:
    """The product version of a component number: by the whole of it, else the last one of its major.minor."""
    minor = _MINOR.match(component)
    near = None
    for row in knowledge.rows("cann_internal_versions", "versions"):
        for number in row.texts("component"):
            if number == component:
                return str(row["cann"])
            other = _MINOR.match(number)
            if minor and other and minor[0] == other[0]:
                near = str(row["cann"])
    return near


def component_of(knowledge: Knowledge, product: str) -> Optional[str]:
    """The component number of a product version; the number itself from 8.2 on."""
    for row in knowledge.rows("cann_internal_versions", "versions"):
        if row["cann"].lower() == product.lower() and row.texts("component"):
            return row.texts("component")[0]
    minor = _MINOR.match(product)
    is_same_number = minor is not None and tuple(map(int, minor[0].split("."))) >= (8, 2)
    return product if is_same_number else None


def _make_pair(row: KnowledgeRow, release: str) -> Pair:
    compatible = bool(row.values.get("compatible", True))
    return Pair(row[release], row.texts("cann"), row["source"], row["as_of"], compatible)


def mindspore_pairs(knowledge: Knowledge) -> list[Pair]:
    """MindSpore and CANN: the rows that name products, and those that name components, by product."""
    by_component = []
    for row in knowledge.rows("mindspore", "cann_component_versions"):
        products = (product_of(knowledge, component) for component in row.texts("accepts"))
        cann = tuple(product for product in products if product)
        by_component.append(Pair(row["mindspore"], cann, row["source"], row["as_of"]))
    return [*pairs_of(knowledge, "mindspore", "cann", "mindspore"), *by_component]


def find_newest_accepting(
    knowledge: Knowledge, component: str, python: Optional[str] = None
) -> Optional[str]:
    """The newest MindSpore 2 that accepts a component number, and is published for this Python; None when
    none does."""
    minor = _MINOR.match(component)
    versions = [
        version
        for row in knowledge.rows("mindspore", "cann_component_versions")
        for version in (public_version(row["mindspore"]),)
        if version and version.major >= 2 and minor and minor[0] in row.texts("accepts")
    ]
    for release in sorted(versions, reverse=True):
        row = find_python_row(knowledge, "mindspore", str(release))
        # Rows name Pythons as 3.11.
        interpreter = ".".join((python or "").split(".")[:2])
        if (
            row is None
            or not interpreter
            or (interpreter in row.texts("python")) is row.values.get("compatible", True)
        ):
            return str(release)
    return None


def find_python_row(knowledge: Knowledge, name: str, version: str) -> Optional[KnowledgeRow]:
    """The row that says for which Pythons a release of a distribution was published; None when none does.

    For torch_npu: that of the torch which it extends.
    """
    table, section, key = {
        "torch-npu": ("torch_npu", "python", "torch"),
        "vllm-ascend": ("vllm_ascend", "releases", "vllm_ascend"),
    }.get(name, ("mindspore", "python", "mindspore"))
    from packaging.specifiers import SpecifierSet

    release = public_version(version)
    rows = [row for row in knowledge.rows(table, section) if row.texts("python")]
    if release is not None and name == "torch-npu":
        specifiers = (SpecifierSet(",".join(row.texts("torch_npu"))) for row in rows)
        rows = [
            row for row, specifier in zip(rows, specifiers) if specifier.contains(release, prereleases=True)
        ]
        release = public_version(release.base_version)
    if section == "releases":  # what such a row forbids is a CANN
        rows = [row for row in rows if row.values.get("compatible", True)]
    return next((row for row in rows if release is not None and public_version(row[key]) == release), None)
