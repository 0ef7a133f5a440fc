"""A stream of languages from Debian's translated manual pages: packs and a benchmark.

    apt-get install manpages-de manpages-fr manpages-es manpages-pl manpages-ru manpages-ja ...
    python examples/manpages.py packs
    metadrift run --benchmark packs/manpages.toml --shots 5

A domain is a language, a class is a page, an example is a paragraph of it. A page belongs to the
same split in all languages. Languages are as large as their translators made them.
"""

import argparse
import gzip
import re
import zlib
from collections import Counter
from pathlib import Path

import numpy as np

from metadrift.data.any_order import pack_from_dataset

MAN = Path("/usr/share/man")
LANGUAGES = ["fr", "hu", "ja", "pt_BR", "ru", "nl", "de", "cs", "es", "it", "pl", "zh_CN"]
LEAST, MOST = 16, 40  # paragraphs of a page
LETTERS = 60  # of a paragraph, at least (a third of that where words are not spelled)


def paragraphs(page: Path) -> list[str]:
    """The running text of a page in troff, without its macros and escapes."""
    found, words = [], []
    text = gzip.decompress(page.read_bytes()).decode("utf-8", "replace")
    for line in [*text.splitlines(), ".PP"]:
        macro, _, rest = line[1:].strip().partition(" ")
        if not line.startswith((".", "'")):
            words.append(line)
        elif re.fullmatch(r"[BIR]{1,2}|SM|SB|Nm|Fl|Ar|Pa|Op|Cm|Em|Sy|Xr|Dv|Va", macro):
            words.append(rest.replace('"', ""))  # a font: its argument is text
        else:  # a new paragraph, a heading, or what does not print
            found.append(" ".join(words))
            words = []
    plain = [
        re.sub(r"\\f.|\\s[-+]?\d|\\\(..|\\\[[^]]*\]|\\\*.|\\[&|^/,c%]|\\", "", one) for one in found
    ]
    return [re.sub(r"\s+", " ", one).strip() for one in plain]


def long_enough(text: str) -> bool:
    spelled = sum(ord(letter) < 0x2E80 for letter in text)
    return spelled + 3 * (len(text) - spelled) >= LETTERS


def hashed_ngrams(text: str, dim: int, sizes: range = range(2, 5)) -> np.ndarray:
    """Counts of hashed character n-grams with signs, damped by a square root, of length 1."""
    spaced, counts = f" {text.lower()} ", np.zeros(dim, np.float32)
    for size in sizes:
        for start in range(len(spaced) - size + 1):
            code = zlib.crc32(spaced[start : start + size].encode())
            counts[code % dim] += 1 if code >> 31 else -1
    damped = np.sign(counts) * np.sqrt(np.abs(counts))
    return damped / max(float(np.linalg.norm(damped)), 1e-9)


def split_of(page: str) -> str:
    place = zlib.crc32(page.encode()) / 2**32
    return "train" if place < 0.6 else "val" if place < 0.75 else "test"


def read_language(language: str) -> dict[str, list[str]]:
    """Pages with enough paragraphs; one that several pages share (a licence) is in none of them."""
    pages = {
        page.name.removesuffix(".gz"): list(dict.fromkeys(filter(long_enough, paragraphs(page))))
        for page in sorted((MAN / language).glob("man*/*.gz"))
        if not page.is_symlink()
    }
    shared = Counter(text for texts in pages.values() for text in texts)
    kept = {name: [t for t in texts if shared[t] == 1] for name, texts in pages.items()}
    return {name: texts[:MOST] for name, texts in kept.items() if len(texts) >= LEAST}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder of the packs and the benchmark")
    parser.add_argument("--languages", nargs="+", default=LANGUAGES, help="in this order")
    parser.add_argument("--dim", type=int, default=512, help="length of the vectors")
    parser.add_argument("--steps-per-page", type=int, default=5, help="steps per training page")
    arguments = parser.parse_args()
    lines = ['title = "Manual pages, language after language"', "memory = 60"]
    for language in arguments.languages:
        pages = read_language(language)
        splits = {page: split_of(page) for page in pages}
        if min(Counter(splits.values())[split] for split in ("train", "val", "test")) < 5:
            print(f"{language}: {len(pages)} pages are too few; left out")
            continue
        rows = (
            (hashed_ngrams(text, arguments.dim), page)
            for page, texts in pages.items()
            for text in texts
        )
        pack = pack_from_dataset(
            rows,
            arguments.out / language,
            splits=splits,
            source=f"Debian package manpages-{language.lower().replace('_', '-')}",
            licence="several free licences, see the package",
            replace=True,
        )
        train = len(pack.classes("train"))
        steps = arguments.steps_per_page * train
        lines += [
            "",
            "[[segments]]",
            f'domain = "{language}"',
            f"steps = {steps}",
            f'pack = "{language}"',
        ]
        size = f"{train} of {len(pages)} pages to train on, {len(pack.examples)} paragraphs"
        print(f"{language}: {size}")
    (arguments.out / "manpages.toml").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
