"""Tests pages that `rewire report` wrote, in a browser: python3 page_test.py PAGE.html…

Each page is opened from disk in headless chromium. All expected values are computed from the page's own data. Exit
code 77: selenium, chromium or chromedriver is missing, nothing was tested. 1: a test failed.
"""

import csv
import io
import json
import math
import pathlib
import re
import shutil
import statistics
import sys
import tempfile
import time
import unittest

try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.chrome.service import Service
except ImportError:
    print("skipped: python3-selenium is missing")
    sys.exit(77)

kReadyMs = 2000
kNoMetric = {"epoch", "step", "images", "seconds"}
kRoles = {"button", "link", "tab", "combobox", "slider", "checkbox", "radio", "tablist", "tabpanel"}

# Texts whose contrast with what is behind them is less than 4.5; one for each kind of element.
kContrastScript = r"""
const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
function rgba(text) {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = text;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data].map((v) => v / 255);
}
const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
const luminance = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) =>
  sum + weight * (c[i] <= 0.04045 ? c[i] / 12.92 : ((c[i] + 0.055) / 1.055) ** 2.4), 0);
const behind = (e) => e ? over(rgba(getComputedStyle(e).backgroundColor), behind(e.parentElement)) : [1, 1, 1, 1];
const seen = new Set(), bad = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, e = node.parentElement;
  if (!node.data.trim() || /^(script|style|noscript)$/i.test(e.tagName)) continue;
  let key = '';
  for (let at = e, n = 0; at && n < 5; at = at.parentElement, ++n)
    key += `${at.tagName}.${at.getAttribute('class')}.${at.ariaSelected}.${at.ariaPressed};`;
  if (seen.has(key) || !e.checkVisibility() || !e.getClientRects().length) continue;
  seen.add(key);
  const style = getComputedStyle(e), back = behind(e);
  const front = over(rgba(e.ownerSVGElement ? style.fill : style.color), back);
  const [high, low] = [luminance(front), luminance(back)].sort((a, b) => b - a);
  const ratio = (high + 0.05) / (low + 0.05);
  if (ratio < 4.5) bad.push(`${ratio.toFixed(2)} ${e.tagName} "${node.data.trim().slice(0, 40)}"`);
}
return seen.size > 5 ? bad : ['nothing was checked'];
"""

# Interactive elements that the Tab key can't reach: neither a stop of their own, nor in a list with one stop.
kUnreachableScript = r"""
return [...document.querySelectorAll('button, input, select, summary, [tabindex]')].filter((e) => e.checkVisibility()
  && e.tabIndex < 0 && e.closest('[data-roving]')?.querySelectorAll('[tabindex="0"]').length !== 1)
  .map((e) => e.outerHTML.slice(0, 120));
"""

kHeadingsScript = r"""
return [...document.querySelectorAll('h1, h2, h3')].filter((h) => h.checkVisibility()).map((h) => Number(h.tagName[1]));
"""


def start_browser():
    """A headless chromium, or None if chromium or chromedriver is missing."""
    binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not binary or not driver:
        return None
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1280,800"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(driver))


def numbers(text):
    return [float(part.replace(",", "")) for part in text.split(" ± ")]


class PageTest(unittest.TestCase):
    """What a page must do. A subclass names its page."""

    @classmethod
    def setUpClass(cls):
        cls.url = pathlib.Path(cls.page).resolve().as_uri()
        cls.browser.get(cls.url)
        cls.data = json.loads(cls.browser.execute_script("return document.getElementById('data').textContent"))
        cls.tabs = [e.get_attribute("id")[4:] for e in cls.browser.find_elements(By.CSS_SELECTOR, "[role=tab]")]
        more = ("#tab=diagnostics&view=depth", "#tab=curves&hide=0&smooth=0.5&x=step&y=log")
        cls.views = [f"#tab={tab}" for tab in cls.tabs] + [v for v in more if v[5:].split("&")[0] in cls.tabs]

    def setUp(self):
        self.size(1280)
        self.open("")

    def tearDown(self):
        self.assertEqual([], self.browser.get_log("browser"), "the page wrote to the console")
        messages = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        urls = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
        far = [u for u in urls if not u.startswith(("file:", "data:", "about:", "blob:"))]
        self.assertEqual([], far, "the page asked the network")

    # -- helpers

    def open(self, fragment):
        self.browser.get("about:blank")
        self.browser.get(self.url + fragment)
        self.assertEqual("true", self.run_script("return document.documentElement.dataset.ready"))

    def size(self, width):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                     {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False})

    def run_script(self, text, *arguments):
        return self.browser.execute_script(text, *arguments)

    def one(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def click(self, selector):
        self.run_script("arguments[0].scrollIntoView({block: 'center'})", self.one(selector))
        self.one(selector).click()

    def keys(self, *keys):
        self.run_script("return document.activeElement").send_keys(*keys)

    def wait(self, condition, what):
        end = time.time() + 10
        while not condition():
            self.assertLess(time.time(), end, what)
            time.sleep(0.02)

    def hash(self):
        return dict(part.split("=", 1) for part in self.run_script("return location.hash.slice(1)").split("&"))

    def runs_of(self, group):
        return [self.data["runs"][run] for run in self.data["groups"][group]["runs"]]

    def saved(self, label):
        """What a click on a button of the first chart downloads."""
        with tempfile.TemporaryDirectory() as folder:
            self.browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": folder})
            self.click(f".chart [aria-label$='as {label}']")
            files = lambda: [f for f in pathlib.Path(folder).glob(f"*.{label.lower()}") if f.stat().st_size]
            self.wait(files, f"no {label} file is saved")
            return files()[0].read_bytes()

    # -- tests

    def test_the_first_view_is_ready_in_time(self):
        self.assertLessEqual(float(self.run_script("return document.documentElement.dataset.readyMs")), kReadyMs)
        self.assertIn(self.data["runs"][0]["model"], self.one("h1").text)

    def test_figures_of_the_summary_are_those_of_the_data(self):
        evaluated = any(v is not None for run in self.data["runs"] for name, column in run["eval"].items()
                        if name not in kNoMetric for v in column)
        kind = "eval" if evaluated else "train"
        columns = [th.get_attribute("data-id") for th in self.all(".summary-table thead tr + tr th")]
        self.assertTrue(columns)
        for row in self.all("tr.group"):
            runs = self.runs_of(int(row.get_attribute("data-group")))
            cells = [cell.text for cell in row.find_elements(By.TAG_NAME, "td")]
            self.assertEqual(str(len(runs)), cells[0])
            for name, text in zip(columns, cells[3:]):
                metric, what = name.rsplit(".", 1)
                best = min if self.data["metrics"][metric] == "lower" else max
                values = [[v for v in run[kind].get(metric, []) if v is not None] for run in runs]
                picked = [v[-1] if what == "final" else best(v) for v in values if v]
                wanted = [statistics.fmean(picked)] if picked else []
                wanted += [statistics.stdev(picked)] if len(picked) > 1 else []
                shown = numbers(text) if text != "–" else []
                self.assertEqual(len(wanted), len(shown), f"{name}: {text}")
                for a, b in zip(wanted, shown):
                    self.assertLessEqual(abs(a - b), 6e-4 * max(1, abs(wanted[0])), f"{name}: {text}")

    def test_the_summary_sorts_and_opens_its_runs(self):
        column = self.one(".summary-table thead tr + tr th").get_attribute("data-id")
        values = lambda: [numbers(row.find_elements(By.TAG_NAME, "td")[3].text)[0] for row in self.all("tr.group")]
        for _ in range(2):
            self.click(f"th[data-id='{column}'] button")
            up = self.one(f"th[data-id='{column}']").get_attribute("aria-sort") == "ascending"
            self.assertEqual(sorted(values(), reverse=not up), values())
        self.click("tr.group .toggle")
        self.assertEqual("true", self.one("tr.group .toggle").get_attribute("aria-expanded"))
        self.assertTrue(self.one("tr.run").is_displayed())

    def test_a_csv_file_holds_the_data(self):
        self.open("#tab=curves&x=step")
        metric, wanted = self.one(".chart h3").text, {}
        table = csv.DictReader(io.StringIO(self.saved("CSV").decode()))
        rows = {(r["group"], r["kind"], float(r["step"])): r for r in table}
        for g, group in enumerate(self.data["groups"]):
            for run in self.runs_of(g):
                for kind, word in (("train", "training"), ("eval", "evaluation")):
                    for step, value in zip(run[kind].get("step", []), run[kind].get(metric, [])):
                        if value is not None:
                            wanted.setdefault((group["label"], word, step), []).append(value)
        self.assertEqual(set(wanted), {key for key, row in rows.items() if row["value"]})
        for key, values in wanted.items():
            self.assertTrue(math.isclose(statistics.fmean(values), float(rows[key]["value"]), rel_tol=1e-9), key)
            self.assertEqual(len(values), int(rows[key]["runs"]))
            deviation = float(rows[key]["sd"] or "nan")
            self.assertTrue(math.isclose(statistics.stdev(values), deviation, rel_tol=1e-6, abs_tol=1e-12)
                            if len(values) > 1 else math.isnan(deviation), key)

    def test_svg_and_png_files_stand_alone(self):
        self.open("#tab=curves")
        text = self.saved("SVG").decode()
        self.assertTrue(text.startswith("<svg"))
        self.assertNotRegex(text, r"var\(|light-dark|class=|oklch")
        self.assertIn(self.one(".chart h3").text, text)
        png = self.saved("PNG")
        self.assertEqual(b"\x89PNG", png[:4])
        self.assertEqual(2 * int(re.search(r'width="(\d+)"', text)[1]), int.from_bytes(png[16:20], "big"))

    def test_the_legend_shows_and_hides_groups(self):
        self.open("#tab=curves")
        curves = lambda: len(self.all(".chart:first-child .curve"))
        before = curves()
        self.click("#panel-curves .legend button")
        self.assertEqual("0", self.hash()["hide"])
        self.assertLess(curves(), before)
        self.run_script("document.querySelector('#panel-curves .legend button').focus()")
        self.keys(Keys.ENTER)
        self.assertNotIn("hide", self.hash())
        self.assertEqual(before, curves())

    def test_values_are_read_with_the_keyboard(self):
        self.open("#tab=curves")
        self.run_script("document.querySelector('.plot').focus()")
        spoken = lambda: self.one("#spoken").get_attribute("textContent")
        self.keys(Keys.END)
        last = spoken()
        self.assertTrue(self.one("#tip").is_displayed())
        self.assertIn(self.data["groups"][0]["label"], last)
        self.keys(Keys.HOME)
        self.assertNotEqual(last, spoken())
        self.keys(Keys.ESCAPE)
        self.assertFalse(self.one("#tip").is_displayed())

    def test_tabs_work_by_keyboard(self):
        self.run_script("document.querySelector('#tab-summary').focus()")
        for tab in self.tabs[1:]:
            self.keys(Keys.ARROW_RIGHT)
            self.assertEqual(tab, self.hash()["tab"])
            self.assertTrue(self.one(f"#panel-{tab}").is_displayed())
        self.keys("2")
        self.assertEqual("curves", self.hash()["tab"])

    def test_links_open_what_they_name_and_back_returns(self):
        self.open("#tab=curves&x=step&y=log")
        self.assertTrue(self.one("#panel-curves input[value=log]").is_selected())
        self.click("#tab-recipes")
        self.browser.back()
        self.wait(lambda: self.one("#panel-curves").is_displayed(), "back does not return")
        self.browser.forward()
        self.wait(lambda: self.one("#panel-recipes").is_displayed(), "forward does not go on")
        self.open("#tab=none&hide=9999&smooth=x&view=3")
        self.assertEqual({"tab": "summary"}, self.hash())

    def test_diagnostics_show_each_quantity(self):
        self.open("#tab=diagnostics")
        for kind in [option.get_attribute("value") for option in self.all("#panel-diagnostics option")]:
            for view in ("training", "depth"):
                self.open(f"#tab=diagnostics&view={view}&kind={kind}")
                self.assertTrue(self.all("#panel-diagnostics .curve") or self.all(".charts .note"), kind)

    def test_no_view_makes_the_page_scroll_sideways(self):
        for width in (1280, 420):
            self.size(width)
            for view in self.views:
                self.open(view)
                wide, shown = self.run_script("return [document.documentElement.scrollWidth, innerWidth]")
                self.assertLessEqual(wide, shown, f"{view} at {width} px")

    def test_text_has_contrast_in_both_themes(self):
        for theme in ("light", "dark"):
            self.click(f"#theme input[value={theme}]")
            for view in self.views:
                self.open(view)
                self.assertEqual(theme, self.run_script("return document.documentElement.dataset.theme"))
                self.assertEqual([], self.run_script(kContrastScript), f"{theme} {view}")
        self.run_script("localStorage.clear()")

    def test_what_is_interactive_has_a_name_and_can_be_reached(self):
        for view in self.views:
            self.open(view)
            nodes = self.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
            wanted = [n for n in nodes if not n.get("ignored") and n["role"]["value"] in kRoles]
            self.assertEqual([], [n for n in wanted if not n.get("name", {}).get("value", "").strip()], view)
            self.assertEqual([], self.run_script(kUnreachableScript), view)
            levels = self.run_script(kHeadingsScript)
            self.assertEqual((1, 1), (levels[0], levels.count(1)), view)
            self.assertTrue(all(b <= a + 1 for a, b in zip(levels, levels[1:])), f"{view}: {levels}")


def main(pages):
    browser = start_browser()
    if browser is None:
        print("skipped: chromium or chromedriver is missing")
        return 77
    try:
        suite = unittest.TestSuite()
        for page in pages:
            kind = type(f"Page_{pathlib.Path(page).stem}", (PageTest,), {"page": page, "browser": browser})
            suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(kind))
        result = unittest.TextTestRunner(verbosity=2).run(suite)
    finally:
        browser.quit()
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
