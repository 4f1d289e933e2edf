"""What the tests of pages have in common: a headless chromium, and what every page must do.

A page is opened from disk. All names come from the page's own data. Exit code 77: selenium, chromium or chromedriver is missing,
nothing was tested. 1: a test failed.
"""

import json
import os
import pathlib
import shutil
import sys
import time
import unittest

try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    print("skipped: python3-selenium is missing")
    sys.exit(77)

kReadyMs = 2000
kContrast = 4.5
kWidths = (1280, 420)
kThemes = ("light", "dark")


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


# The contrast of each visible text with what is behind it; one result for each kind of element.
kContrastScript = r"""
const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
const colours = new Map();
function rgba(text) {
  if (!colours.has(text)) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    colours.set(text, [r, g, b, a / 255]);
  }
  return colours.get(text);
}
const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
const luminance = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
  const v = c[i] / 255;
  return sum + weight * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
}, 0);
function behind(element) {
  if (!element) return [255, 255, 255, 1];
  const style = getComputedStyle(element);
  const box = element.matches('a.node') ? element.querySelector('rect') : null;
  const own = rgba(box ? getComputedStyle(box).fill : style.backgroundColor);
  return own[3] === 1 ? own : over(own, behind(element.parentElement));
}
const seen = new Set(), bad = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, element = node.parentElement;
  if (!node.data.trim() || /^(script|style|noscript)$/i.test(element.tagName)) continue;
  let key = '';
  for (let e = element, n = 0; e && n < 6; e = e.parentElement, ++n) {
    key += `${e.tagName}.${e.getAttribute('class')}.${e.getAttribute('aria-selected')}.${e.getAttribute('aria-sort')}.${e.ariaPressed};`;
  }
  if (seen.has(key) || !element.checkVisibility() || !element.getClientRects().length) continue;
  seen.add(key);
  const style = getComputedStyle(element), back = behind(element);
  const front = over(rgba(element.ownerSVGElement ? style.fill : style.color), back);
  const [high, low] = [luminance(front), luminance(back)].sort((a, b) => b - a);
  const ratio = (high + 0.05) / (low + 0.05);
  const what = `${element.tagName}.${element.getAttribute('class')} "${node.data.trim().slice(0, 40)}"`;
  if (ratio < arguments[0]) bad.push(`${ratio.toFixed(2)} ${what}`);
}
return {checked: seen.size, bad};
"""

# The levels and texts of the headings that are shown, in order.
kHeadingsScript = r"""
return [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')]
  .filter((h) => h.checkVisibility() && !h.closest('dialog')).map((h) => [Number(h.tagName[1]), h.textContent]);
"""


def of_slice(views):
    """The first of the views, and of the others those of the slice REWIRE_SLICE=K/N; all without it."""
    index, count = (int(part) for part in os.environ.get("REWIRE_SLICE", "0/1").split("/"))
    return [view for i, view in enumerate(views) if i == 0 or i % count == index]


def wait_until_ready(browser):
    """A machine that is busy has get() return before the page has been read to its end."""
    ready = "return document.documentElement.dataset.ready"
    WebDriverWait(browser, 60, poll_frequency=0.02).until(lambda page: page.execute_script(ready) == "true", "the page is not ready")


class PageTest(unittest.TestCase):
    """A page in the browser. main() makes a subclass of a test's own for each page."""

    browser = None
    page = None

    @classmethod
    def setUpClass(cls):
        cls.url = pathlib.Path(cls.page).resolve().as_uri()
        cls.browser.get(cls.url)
        wait_until_ready(cls.browser)
        cls.data = json.loads(cls.browser.execute_script("return document.getElementById('data').textContent"))

    def setUp(self):
        self.size(1280)
        self.browser.get("about:blank")
        self.browser.get_log("browser")
        self.browser.get_log("performance")
        self.open("")
        if self.run_script("const kept = localStorage.length; localStorage.clear(); return kept"):
            self.open("")

    def tearDown(self):
        self.assertEqual([], self.browser.get_log("browser"), "the page wrote to the console")
        requests = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        urls = {r["params"]["request"]["url"] for r in requests if r["method"] == "Network.requestWillBeSent"}
        far = [u for u in urls if not u.startswith(("file:", "data:", "about:", "blob:"))]
        self.assertEqual([], far, "the page asked the network")

    def open(self, fragment):
        self.browser.get("about:blank")
        self.browser.get(self.url + fragment)
        wait_until_ready(self.browser)

    def check_ready_in_time(self):
        self.check_least(lambda: {"first view": float(self.run_script("return document.documentElement.dataset.readyMs"))})

    def check_least(self, times):
        """Milliseconds by name, the least of three openings of the page: a machine that is busy delays one."""
        least = times()
        for _ in range(2):
            if max(least.values()) <= kReadyMs:
                return
            self.open("")
            least = {name: min(took, least[name]) for name, took in times().items()}
        self.assertLessEqual(max(least.values()), kReadyMs, least)

    def size(self, width):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                     {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False})

    def run_script(self, text, *arguments):
        return self.browser.execute_script(text, *arguments)

    def one(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def keys(self, *keys):
        self.run_script("return document.activeElement").send_keys(*keys)

    def wait(self, condition, what):
        end = time.time() + 10
        while time.time() < end:
            if condition():
                return
            time.sleep(0.02)
        self.fail(what)

    def nameless(self, roles):
        """Elements of these roles that have no name for a screen reader."""
        nodes = self.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        wanted = [n for n in nodes if not n.get("ignored") and n["role"]["value"] in roles]
        return [n for n in wanted if not n.get("name", {}).get("value", "").strip()]

    def show_theme(self, theme):
        self.run_script("document.documentElement.dataset.theme = arguments[0]", theme)

    def check_view(self, view, roles, unreachable_script):
        """Nothing sticks out at any width. At the first, elements of these roles have names, the Tab key reaches all that the script
        looks at, and texts have contrast in both themes."""
        for width in (*kWidths[1:], kWidths[0]):
            self.size(width)
            self.open(view)
            self.check_width(view, width)
        self.assertEqual([], self.nameless(roles), view)
        self.assertEqual([], self.run_script(unreachable_script), view)
        for theme in kThemes:
            self.show_theme(theme)
            self.check_contrast(f"{theme} {view}")

    def check_headings(self, view):
        levels = [level for level, _ in self.run_script(kHeadingsScript)]
        self.assertEqual(1, levels[0], view)
        self.assertEqual(1, levels.count(1), view)
        self.assertTrue(all(after <= before + 1 for before, after in zip(levels, levels[1:])), f"{view}: {levels}")

    def check_width(self, view, width):
        wide, shown = self.run_script("return [document.documentElement.scrollWidth, innerWidth]")
        self.assertLessEqual(wide, shown, f"{view} at {width} px")

    def check_contrast(self, view):
        found = self.run_script(kContrastScript, kContrast)
        self.assertGreater(found["checked"], 5, view)
        self.assertEqual([], found["bad"], view)


def main(test, usage):
    """Runs the tests of a class for each page on the command line."""
    pages = sys.argv[1:]
    if not pages:
        sys.exit(usage)
    browser = start_browser()
    if browser is None:
        print("skipped: chromium or chromedriver is missing")
        sys.exit(77)
    try:
        suite = unittest.TestSuite()
        for page in pages:
            kind = type(f"Page_{pathlib.Path(page).stem}", (test,), {"page": page, "browser": browser})
            suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(kind))
        result = unittest.TextTestRunner(verbosity=2).run(suite)
    finally:
        browser.quit()
    sys.exit(0 if result.wasSuccessful() else 1)
