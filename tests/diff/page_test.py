"""Tests pages that `rewire diff` wrote, in a browser: python3 page_test.py PAGE.html…

Exit code 77: selenium, chromium or chromedriver is missing, nothing was tested. 1: a test failed.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import pages  # noqa: E402: it ends the process where there is no browser
from pages import kReadyMs, kWidths  # noqa: E402


class PageTest(pages.PageTest):
    """What a page of a comparison must do."""

    def open_all(self):
        self.run_script("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        self.wait(lambda: self.run_script("return [...document.querySelectorAll('details[open] > div')].every((d) => d.children.length)"),
                  "a section is empty")
        if self.run_script("return document.querySelectorAll('details:not([open])').length"):
            self.open_all()  # those inside

    def test_both_sides_are_named(self):
        self.assertLess(int(self.run_script("return document.documentElement.dataset.readyMs")), kReadyMs)
        self.assertEqual([e.text for e in self.all("#facts dd")], [self.data["a"], self.data["b"]])

    def test_all_hunks_are_shown(self):
        self.open_all()
        if self.data["kind"] == "runs":
            names = [f"{row['kind']} {row['name']}" for row in self.data["metrics"]]
            shown = self.run_script("return [...document.querySelectorAll('tbody th')].map((e) => e.textContent)")
            self.assertLessEqual(set(names), set(shown))
            return
        hunks = [hunk for stage in self.data["stages"].values() for function in stage["functions"]
                 for i, hunk in enumerate(function["hunks"]) if hunk["like"] == i]
        hunks += [hunk for code in self.data["kernels"]["codes"] for i, hunk in enumerate(code["hunks"]) if hunk["like"] == i]
        for sign, kind in (("-", "removed"), ("+", "added")):
            lines = [f"{sign} {line['text']}" for hunk in hunks for line in hunk["lines"] if line["sign"] == sign]
            shown = self.run_script("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", f".sides .{kind}")
            self.assertEqual(sorted(lines), sorted(shown))

    def test_headings_widths_and_contrast(self):
        self.open_all()
        for width in kWidths:
            self.size(width)
            self.check_width("page", width)
        self.check_headings("page")
        for theme in ("light", "dark"):
            self.run_script("document.querySelector(`#theme input[value=${arguments[0]}]`).click()", theme)
            self.check_contrast(theme)

    def test_elements_have_names(self):
        self.assertEqual([], self.nameless({"button", "radio", "DisclosureTriangle"}))


if __name__ == "__main__":
    pages.main(PageTest, __doc__)
