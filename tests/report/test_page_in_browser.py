"""The page in headless Chromium: it renders, answers the pointer, and runs nobody else's script."""

from metadrift.report.make import make_report

HOSTILE = "<script>alert(1)</script>"
QUOTE = '"><img src=x onerror=alert(2)>'


def test_the_page_renders_and_answers(comparison, browser):
    page, _ = make_report(comparison)
    browser.open(page)
    assert browser.run("document.querySelectorAll('svg.chart').length") > 10
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")

    # Hover: the values at the step below the pointer, one line a variant.
    browser.point('svg[aria-label="stones"]', along=0.99 - 0.05)
    tip = "document.getElementById('tip')"
    assert browser.run(f"!{tip}.hidden && {tip}.textContent").startswith("step 100")
    assert browser.run(f"{tip}.textContent.includes('m2d3-pets 45.5%')")
    lines = browser.run(f"{tip}.querySelectorAll('div').length")

    # Hide a variant: its lines, its row of the table, its line of the tip.
    browser.click('[data-toggle="2"]')
    gone = "[...document.querySelectorAll('[data-variant=\"2\"]')]"
    assert browser.run(f"{gone}.every(e => getComputedStyle(e).display === 'none')")
    assert browser.run(f"{gone}.some(e => e.tagName === 'TR')")
    browser.point('svg[aria-label="stones"]', along=0.9)
    assert browser.run(f"{tip}.querySelectorAll('div').length") == lines - 1
    browser.click('[data-toggle="2"]')
    assert browser.run(f"{gone}.every(e => getComputedStyle(e).display !== 'none')")

    assert browser.complaints == []
    assert {url for url in browser.requests if not url.startswith("data:")} == {page.as_uri()}


def test_light_and_dark_follow_the_system_and_the_button(comparison, browser):
    page, _ = make_report(comparison)
    paper = "getComputedStyle(document.body).backgroundColor"
    browser.open(page, dark=True)
    dark = browser.run(paper)
    browser.click("#theme")
    light = browser.run(paper)
    browser.click("#theme")
    assert browser.run(paper) == dark != light


def test_a_phone_needs_no_sideways_scrolling(comparison, browser):
    page, _ = make_report(comparison)
    browser.open(page, width=390, height=844)
    assert browser.run("document.documentElement.scrollWidth") == 390
    assert browser.run("getComputedStyle(document.querySelector('.broad')).display") == "none"
    assert browser.complaints == []


def test_hostile_names_stay_text(tmp_path, write_comparison, browser):
    variants = {HOSTILE: "reservoir", QUOTE: "m2d3-pets"}
    segments = ((HOSTILE, 30), (QUOTE, 70))
    folder = write_comparison(tmp_path / "c", variants, segments, title=HOSTILE)
    page, _ = make_report(folder)
    browser.open(page)
    assert browser.run("document.querySelector('h1').textContent") == HOSTILE
    assert browser.run("document.querySelectorAll('script, img').length") == 1
    browser.point("svg[data-hover]", along=0.9)
    assert browser.run("document.getElementById('tip').textContent.includes('<script>')")
    assert browser.run("document.getElementById('tip').querySelector('script, img')") is None
    assert browser.complaints == []
