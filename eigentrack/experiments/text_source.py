"""TextSource: where the text of a language experiment comes from: a dataset by name, or files and folders."""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass
from pathlib import Path

from eigentrack.lm.documents import Documents, ShareSplit
from eigentrack.lm.named_dataset import DatasetDocuments
from eigentrack.lm.text_files import FileDocuments, find_files

STANDARD_LIBRARY = "stdlib:"  # a file of Python's own: text that every machine has


@dataclass(frozen=True)
class TextSource:
    label: str
    files: tuple[str, ...] = ()
    dataset: str | None = None  # streamed, in place of files
    subset: str | None = None
    split: str = "train"
    field: str = "text"
    first: int | None = None  # rows of the dataset

    def documents(self, validation_share: float = 0.0) -> Documents:
        rule = ShareSplit(validation_share)
        if self.dataset is not None:
            remedy = f"give files of your own with --data {self.label}=PATH"
            return DatasetDocuments(self.dataset, self.subset, self.split, rule, self.field, self.first, remedy)
        files = find_files([_resolved(name) for name in self.files])
        return FileDocuments(files, rule, self.field, f"rename the one that holds the text to {self.field!r}")

    @property
    def shown(self) -> str:
        return self.dataset or ", ".join(self.files)


def _resolved(name: str) -> Path:
    if name.startswith(STANDARD_LIBRARY):
        return Path(sysconfig.get_path("stdlib")) / name.removeprefix(STANDARD_LIBRARY)
    return Path(name)
