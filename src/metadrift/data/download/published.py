"""Where the datasets are published: addresses, and checksums where there are any."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from metadrift.data.importers.splits import official_names


@dataclass(frozen=True)
class Remote:
    """One file: its name below the dataset's folder, and its published md5."""

    name: str
    md5: str | None = None


@dataclass(frozen=True)
class Published:
    """A dataset that can be downloaded.

    Parameters
    ----------
    page
        Where its authors describe it, with its terms.
    base
        The address without the file's name.
    files
        All its files.
    source
        What `metadrift data import` reads, below the folder of the files; "" is that folder.
    size
        The size of the download, as text to show.
    head
        How many bytes of each file are enough, where files are far longer.
    """

    page: str
    base: str
    files: tuple[Remote, ...]
    source: str
    size: str
    head: int | None = None

    def address(self, file: Remote, base: str | None = None) -> str:
        """The file's address, at its publisher or at a mirror.

        Examples
        --------
        >>> quickdraw = DATASETS["quickdraw"]
        >>> quickdraw.address(Remote("alarm clock.ndjson"), "http://localhost/drawings/")
        'http://localhost/drawings/alarm%20clock.ndjson'
        """
        return f"{(base or self.base).rstrip('/')}/{quote(file.name)}"


def _archive(page: str, base: str, name: str, md5: str, size: str) -> Published:
    """A dataset that is one archive."""
    return Published(page, base, (Remote(name, md5),), name, size)


DATASETS: dict[str, Published] = {
    "omniglot": Published(
        page="https://github.com/brendenlake/omniglot",
        base="https://raw.githubusercontent.com/brendenlake/omniglot/master/python",
        files=(
            Remote("images_background.zip", "68d2efa1b9178cc56df9314c21c6e718"),
            Remote("images_evaluation.zip", "6b91aef0f799c5bb55b94e3f2daec811"),
        ),
        source="",
        size="16 MB",
    ),
    "cub": _archive(
        "https://data.caltech.edu/records/65de6-vp158",
        "https://data.caltech.edu/records/65de6-vp158/files",
        "CUB_200_2011.tgz",
        "97eceeb196236b17998738112f37df78",
        "1.2 GB",
    ),
    "aircraft": _archive(
        "https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/",
        "https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/archives",
        "fgvc-aircraft-2013b.tar.gz",
        "d4acdd33327262359767eeaa97a4f732",
        "2.8 GB",
    ),
    "quickdraw": Published(
        page="https://github.com/googlecreativelab/quickdraw-dataset",
        base="https://storage.googleapis.com/quickdraw_dataset/full/simplified",
        files=tuple(Remote(f"{name}.ndjson") for name in sorted(official_names("quickdraw"))),
        source="",
        size="0.7 GB: the first 2 MiB of each of 345 files, some thousand drawings",
        head=2 * 2**20,
    ),
}

# Datasets that a program cannot download: what to do by hand.
BY_HAND: dict[str, str] = {
    "miniimagenet": (
        "miniImageNet cannot be downloaded by a program: its images belong to ImageNet, which "
        "needs an account.\n"
        "  1. The lists train.csv, val.csv and test.csv are published by Ravi and Larochelle at\n"
        "     https://github.com/twitter-research/meta-learning-lstm (data/miniImagenet)\n"
        "  2. The images come from ILSVRC 2012, https://image-net.org/download.php\n"
        "  3. Place the 60,000 images as FOLDER/images/*.jpg and the lists beside that folder:\n"
        "     FOLDER/train.csv, FOLDER/val.csv, FOLDER/test.csv (columns filename,label)\n"
        "  4. metadrift data import miniimagenet FOLDER"
    ),
    "necessities": (
        "Necessities is a part of Logo-2K+, which can only be downloaded with a browser.\n"
        "  1. The links are at https://github.com/msn199959/Logo-2k-plus-Dataset\n"
        "  2. Unpack Logo-2K+ so that there is FOLDER/Necessities/BRAND/*.jpg (182 brands)\n"
        "  3. metadrift data import necessities FOLDER"
    ),
}
