"""Tests pages that `rewire diff` wrote, in a browser: python3 page_test.py PAGE.html…

Exit code 77: selenium, chromium or chromedriver is missing, nothing was tested. 1: a test failed.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import pages  # noqa: E402: it ends the process where there is no browser
from pages import kWidths  # noqa: E402


class PageTest(pages.PageTest):
    """What a page of a comparison must do."""

    def open_all(self):
        self.run_script("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        self.wait(lambda: self.run_script("return [...document.querySelectorAll('details[open] > div')].every((d) => d.children.length)"),
                  "a section is empty")
        if self.run_script("return document.querySelectorAll('details:not([open])').length"):
            self.open_all()  # those inside

    def test_both_sides_are_named(self):
        self.check_ready_in_time()
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

    def test_joins_are_in_order_and_those_alike_are_one_row(self):
        joins = self.data.get("joins", [])
        groups = {}
        for row in joins:
            groups.setdefault(row["like"], []).append(row["key"])
        section = [d for d in self.all("main > details") if d.find_element("css selector", "h2").text == "Joins"]
        shown = [[th.text, *(td.text for td in tr.find_elements("css selector", "td"))]
                 for d in section for tr in d.find_elements("css selector", "tbody tr")
                 for th in tr.find_elements("css selector", "th")]
        more = lambda places: f" and {len(places) - 1} more like it" if len(places) > 1 else ""
        self.assertEqual([[places[0] + more(places), joins[first]["a"], joins[first]["b"]] for first, places in groups.items()],
                         shown)

    def test_no_word_is_broken(self):
        self.open_all()
        # A cell is as wide as its longest word, where that fits on the screen: "plugins" is not p-l-u-g-i-n-s.
        script = """
          return [...document.querySelectorAll('main th, main td')].filter((cell) => {
            const range = document.createRange();
            return [...cell.childNodes].filter((n) => n.nodeType === Node.TEXT_NODE).some((node) =>
              [...node.data.matchAll(/[\\w=]{2,24}/g)].some((word) => {
                range.setStart(node, word.index);
                range.setEnd(node, word.index + word[0].length);
                return new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1;
              }));
          }).map((cell) => cell.textContent.slice(0, 60));"""
        for width in (1000, *kWidths):
            self.size(width)
            self.assertEqual([], self.run_script(script), width)

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
