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
kContrast = 4.5
kWidths = (1280, 420)
kNoMetric = {"epoch", "step", "images", "seconds"}
kInteractiveRoles = {"button", "link", "tab", "combobox", "slider", "checkbox", "radio", "tablist", "tabpanel"}

# The contrast of each visible text with what is behind it; one result for each kind of element.
kContrastScript = r"""
const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
function rgba(text) {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = text;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
}
const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
const luminance = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
  const v = c[i] / 255;
  return sum + weight * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
}, 0);
function behind(element) {
  if (!element) return [255, 255, 255, 1];
  const own = rgba(getComputedStyle(element).backgroundColor);
  return own[3] === 1 ? own : over(own, behind(element.parentElement));
}
const seen = new Set(), bad = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, element = node.parentElement;
  if (!node.data.trim() || /^(script|style|noscript)$/i.test(element.tagName)) continue;
  let key = '';
  for (let e = element, n = 0; e && n < 5; e = e.parentElement, ++n)
    key += `${e.tagName}.${e.getAttribute('class')}.${e.getAttribute('aria-selected')}.${e.ariaPressed};`;
  if (seen.has(key) || !element.checkVisibility() || !element.getClientRects().length) continue;
  seen.add(key);
  const style = getComputedStyle(element), back = behind(element);
  const front = over(rgba(element.ownerSVGElement ? style.fill : style.color), back);
  const [high, low] = [luminance(front), luminance(back)].sort((a, b) => b - a);
  const ratio = (high + 0.05) / (low + 0.05);
  if (ratio < arguments[0]) bad.push(`${ratio.toFixed(2)} ${element.tagName} "${node.data.trim().slice(0, 40)}"`);
}
return {checked: seen.size, bad};
"""

# Interactive elements that the Tab key can't reach: neither a stop of their own, nor in a list with one stop.
kUnreachableScript = r"""
return [...document.querySelectorAll('button, input, select, summary, [tabindex]')].filter((e) =>
  e.checkVisibility() && e.tabIndex < 0
  && e.closest('[data-roving]')?.querySelectorAll('[tabindex="0"]').length !== 1).map((e) => e.outerHTML.slice(0, 120));
"""

kHeadingsScript = r"""
return [...document.querySelectorAll('h1, h2, h3')].filter((h) => h.checkVisibility() && !h.closest('dialog'))
  .map((h) => Number(h.tagName[1]));
"""

kMovingScript = r"""
return [...document.querySelectorAll('*')].filter((e) => {
  const s = getComputedStyle(e);
  return s.animationName !== 'none' || s.transitionDuration.split(', ').some((d) => d !== '0s');
}).length;
"""


def start_browser():
    """A headless chromium, or None if chromium or chromedriver is missing."""
    binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not binary or not driver:
        return None
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,800"):
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

    def setUp(self):
        self.size(1280)
        self.open("")
        self.browser.get_log("performance")

    def tearDown(self):
        self.assertEqual([], self.browser.get_log("browser"), "the page wrote to the console")
        requests = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        urls = {r["params"]["request"]["url"] for r in requests if r["method"] == "Network.requestWillBeSent"}
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
        element = self.one(selector)
        self.run_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def keys(self, *keys):
        self.run_script("return document.activeElement").send_keys(*keys)

    def wait(self, condition, what):
        end = time.time() + 5
        while time.time() < end:
            if condition():
                return
            time.sleep(0.02)
        self.fail(what)

    def hash(self):
        return dict(part.split("=", 1) for part in self.run_script("return location.hash.slice(1)").split("&"))

    def views(self):
        return [f"#tab={tab}" for tab in self.tabs] + [v for v in ("#tab=diagnostics&view=depth", "#tab=recipes&by=runs",
                "#tab=curves&hide=0&smooth=0.5&x=step") if v[5:].split("&")[0] in self.tabs]

    def emulate(self, feature, value):
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": feature, "value": value}]})

    def runs_of(self, group):
        return [self.data["runs"][run] for run in self.data["groups"][group]["runs"]]

    def kind(self):
        """What the summary shows: the evaluation, or training where no run was evaluated."""
        has = any(v is not None for r in self.data["runs"] for k, c in r["eval"].items() if k not in kNoMetric for v in c)
        return "eval" if has else "train"

    def saved(self, selector, end):
        """What a click on a button downloads."""
        with tempfile.TemporaryDirectory() as folder:
            self.browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": folder})
            self.click(selector)
            done = lambda: [f for f in pathlib.Path(folder).glob(f"*.{end}") if f.stat().st_size]
            self.wait(done, f"no {end} file is saved")
            return done()[0].read_bytes()

    # -- tests

    def test_the_first_view_is_ready_in_time(self):
        self.assertLessEqual(float(self.run_script("return document.documentElement.dataset.readyMs")), kReadyMs)
        self.assertIn(self.data["runs"][0]["model"], self.one("h1").text)

    def test_figures_of_the_summary_are_those_of_the_data(self):
        kind, checked = self.kind(), 0
        columns = [th.get_attribute("data-id") for th in self.all(".summary-table thead tr + tr th")]
        for row in self.all("tr.group"):
            runs = self.runs_of(int(row.get_attribute("data-group")))
            cells = [cell.text for cell in row.find_elements(By.TAG_NAME, "td")]
            self.assertEqual(str(len(runs)), cells[0])
            for name, text in zip(columns, cells[3:]):
                metric, what = name.rsplit(".", 1)
                values = [[v for v in run[kind].get(metric, []) if v is not None] for run in runs]
                of = {"final": lambda v: v[-1], "best": min if self.data["metrics"][metric] == "lower" else max}[what]
                picked = [of(v) for v in values if v]
                if not picked:
                    self.assertEqual("–", text)
                    continue
                shown, checked = numbers(text), checked + 1
                wanted = [statistics.fmean(picked)] + ([statistics.stdev(picked)] if len(picked) > 1 else [])
                self.assertEqual(len(wanted), len(shown), f"{name}: {text}")
                tolerance = max(6e-4, abs(wanted[0]) * 6e-4)
                for a, b in zip(wanted, shown):
                    self.assertLessEqual(abs(a - b), tolerance, f"{name}: {text}")
        self.assertTrue(checked or not columns)

    def test_the_summary_sorts_and_opens_its_runs(self):
        column = self.all(".summary-table thead tr + tr th")[0].get_attribute("data-id")
        values = lambda: [numbers(row.find_elements(By.TAG_NAME, "td")[3].text)[0] for row in self.all("tr.group")]
        self.click(f"th[data-id='{column}'] button")
        self.assertIn(values(), (sorted(values()), sorted(values(), reverse=True)))
        first = values()
        self.click(f"th[data-id='{column}'] button")
        self.assertEqual(sorted(first) == first, sorted(values(), reverse=True) == values())
        self.click("tr.group .toggle")
        self.assertEqual("true", self.one("tr.group .toggle").get_attribute("aria-expanded"))
        self.assertTrue(self.one("tr.run").is_displayed())

    def test_a_csv_file_holds_the_data(self):
        self.open("#tab=curves&x=step")
        metric = self.one(".chart h3").text
        text = self.saved(".chart [aria-label$='as CSV']", "csv").decode()
        rows = {(r["group"], r["kind"], float(r["step"])): r for r in csv.DictReader(io.StringIO(text))}
        points = 0
        for g, group in enumerate(self.data["groups"]):
            for kind, word in (("train", "training"), ("eval", "evaluation")):
                at = {}
                for run in self.runs_of(g):
                    for step, value in zip(run[kind].get("step", []), run[kind].get(metric, [])):
                        if value is not None:
                            at.setdefault(step, []).append(value)
                for step, values in at.items():
                    row, points = rows[group["label"], word, step], points + 1
                    self.assertTrue(math.isclose(statistics.fmean(values), float(row["value"]), rel_tol=1e-9))
                    self.assertEqual(len(values), int(row["runs"]))
                    if len(values) > 1:
                        self.assertTrue(math.isclose(statistics.stdev(values), float(row["sd"]), rel_tol=1e-6,
                                                     abs_tol=1e-12))
        self.assertEqual(points, sum(row["value"] != "" for row in rows.values()))

    def test_svg_and_png_files_stand_alone(self):
        self.open("#tab=curves")
        text = self.saved(".chart [aria-label$='as SVG']", "svg").decode()
        self.assertTrue(text.startswith("<svg"))
        self.assertNotRegex(text, r"var\(|light-dark|class=|oklch")
        self.assertIn(self.one(".chart h3").text, text)
        png = self.saved(".chart [aria-label$='as PNG']", "png")
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
        self.keys(Keys.END)
        last = self.one("#spoken").get_attribute("textContent")
        self.assertTrue(self.one("#tip").is_displayed())
        self.assertIn(self.data["groups"][0]["label"].split(",")[0], last + self.one("#tip").text)
        self.keys(Keys.HOME)
        self.assertNotEqual(last, self.one("#spoken").get_attribute("textContent"))
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
        self.assertTrue(self.one("#curves input, #panel-curves input[value=log]").is_selected())
        self.click("#tab-recipes")
        self.browser.back()
        self.wait(lambda: self.one("#panel-curves").is_displayed(), "back does not return")
        self.browser.forward()
        self.wait(lambda: self.one("#panel-recipes").is_displayed(), "forward does not go on")
        self.open("#tab=none&hide=9999&smooth=x&view=3")
        self.assertEqual({"tab": "summary"}, self.hash())

    def test_diagnostics_show_each_quantity(self):
        if "diagnostics" not in self.tabs:
            self.skipTest("no run has diagnostics")
        for view in ("training", "depth"):
            self.open(f"#tab=diagnostics&view={view}")
            for kind in [o.get_attribute("value") for o in self.all("#panel-diagnostics option")]:
                self.open(f"#tab=diagnostics&view={view}&kind={kind}")
                self.assertTrue(self.all("#panel-diagnostics .curve") or self.all(".charts .note"), kind)

    def test_no_view_makes_the_page_scroll_sideways(self):
        for width in kWidths:
            self.size(width)
            for view in self.views():
                self.open(view)
                wide, shown = self.run_script("return [document.documentElement.scrollWidth, innerWidth]")
                self.assertLessEqual(wide, shown, f"{view} at {width} px")

    def test_text_has_contrast_in_both_themes(self):
        for theme in ("light", "dark"):
            self.click(f"#theme input[value={theme}]")
            for view in self.views():
                self.open(view)
                self.assertEqual(theme, self.run_script("return document.documentElement.dataset.theme"))
                result = self.run_script(kContrastScript, kContrast)
                self.assertGreater(result["checked"], 5)
                self.assertEqual([], result["bad"], f"{theme} {view}")
        self.run_script("localStorage.clear()")

    def test_what_is_interactive_has_a_name_and_can_be_reached(self):
        for view in self.views():
            self.open(view)
            nodes = self.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
            wanted = [n for n in nodes if not n.get("ignored") and n["role"]["value"] in kInteractiveRoles]
            nameless = [n["role"]["value"] for n in wanted if not n.get("name", {}).get("value", "").strip()]
            self.assertEqual([], nameless, view)
            self.assertEqual([], self.run_script(kUnreachableScript), view)
            levels = self.run_script(kHeadingsScript)
            self.assertEqual(1, levels.count(1), view)
            self.assertTrue(all(b <= a + 1 for a, b in zip(levels, levels[1:])), f"{view}: {levels}")

    def test_nothing_moves_for_those_who_want_no_motion(self):
        self.emulate("prefers-reduced-motion", "reduce")
        self.open("")
        self.assertEqual(0, self.run_script(kMovingScript))
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def main(pages):
    if not pages:
        print(__doc__)
        return 1
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
    sys.exit(main(sys.argv[1:]))
