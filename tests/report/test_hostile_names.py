"""A run whose folder and domains have hostile names, in headless Chromium."""

from metadrift.report.make import make_report

FOLDER = "<img src=x onerror=alert(3)>"
DOMAINS = (("<script>alert(1)</script>", 30), ("</title><svg onload=alert(2)>", 70))


def test_a_run_with_a_hostile_name_stays_text(tmp_path, write_comparison, browser):
    comparison = write_comparison(tmp_path / "c", {"ours": "m2d3-pets"}, DOMAINS)
    run = next(comparison.glob("ours-*-seed0")).rename(tmp_path / FOLDER)
    page, _ = make_report(run)
    browser.open(page)
    assert FOLDER in browser.run("document.title")
    assert FOLDER in browser.run("document.querySelector('h1').textContent")
    assert browser.run("document.querySelectorAll('script').length") == 1
    assert browser.run("document.querySelectorAll('[onload], [onerror]').length") == 0
    text = browser.run("document.body.textContent")
    assert all(name in text for name, _ in DOMAINS)
    assert browser.complaints == []
