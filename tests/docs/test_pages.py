"""The pages fit together: links, navigation, commands, public names and the files beside them."""

import importlib
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest

import metadrift
from metadrift.cli import COMMANDS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ROOMS = [room.name for room in pkgutil.iter_modules(metadrift.__path__) if room.ispkg]


def test_every_link_leads_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if not target.startswith("http"):
            assert (ROOT / page).parent.joinpath(target).exists(), f"{page} links to {target}"


def test_every_page_is_in_the_navigation(page):
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[1]
    if page.startswith("docs/"):
        assert re.search(rf"[ :-] {page.removeprefix('docs/')}$", nav, re.MULTILINE), page


# Of the changes and the rooms' references.
OTHER_ENDS = r"docs/(changes|reference/\w+)\.md"


def test_every_page_begins_with_what_it_is_for_and_ends_with_where_to_go(page):
    if not page.startswith("docs/") or re.fullmatch(OTHER_ENDS, page):
        pytest.skip("a page of another kind")
    text = re.sub(r"<!--.*?-->", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    title, first = re.split(r"\n\n+", text)[:2]
    assert title.startswith("# "), page
    assert re.match(r"(?!```)[A-Za-z`*]", first.strip()), f"{page} should begin with a sentence"
    end = text.rstrip().split("\n\n")[-1]
    next_section = "\n## Next\n" in text and "\n## " not in text.split("\n## Next\n")[1]
    assert end.startswith("**Next:**") or next_section, f"{page} should end with what comes next"
    assert "](" in end, page


@pytest.mark.parametrize("target", ["demo", "test"])
def test_the_two_commands_of_the_readme_exist(target):
    assert f"make {target}" in README
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_reference_lists_every_command(name):
    assert f"| `metadrift {name}` |" in (ROOT / "docs/reference/commands.md").read_text()


@pytest.mark.parametrize("room", ROOMS)
def test_the_reference_has_every_public_name_of_a_room(room):
    listed = re.findall(r"^::: (\S+)$", (ROOT / f"docs/reference/{room}.md").read_text(), re.M)
    for path in listed:
        module, name = path.rsplit(".", 1)
        assert hasattr(importlib.import_module(module), name), path
    public = set(getattr(importlib.import_module(f"metadrift.{room}"), "__all__", []))
    named = {path.rsplit(".", 1)[1] for path in listed}
    assert public <= named, f"docs/reference/{room}.md lacks {sorted(public - named)}"


def test_the_versions_of_package_and_citation_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == metadrift.__version__
    for file in ("CITATION.cff", "docs/how-to/cite.md"):
        found = re.search(r"(?m)^ *version *[:=] *\{?([\d.]+)", (ROOT / file).read_text())[1]
        assert found == metadrift.__version__, file


def test_the_site_fetches_nothing():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "font: false" in text
    assert not re.search(r"https?://|analytics", text)
