"""Tests pages that `rewire report` wrote, in a browser: python3 page_test.py PAGE.html…

Each page is opened from disk in headless chromium. All expected values are computed from the page's own data. Exit
code 77: selenium, chromium or chromedriver is missing, nothing was tested. 1: a test failed.
"""

import csv
import io
import math
import pathlib
import re
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import pages  # noqa: E402: it ends the process where there is no browser
from pages import By, Keys, kThemes  # noqa: E402

kNoMetric = {"epoch", "step", "samples", "seconds"}
kRoles = {"button", "link", "tab", "combobox", "slider", "checkbox", "radio", "tablist", "tabpanel"}

# Interactive elements that the Tab key can't reach: neither a stop of their own, nor in a list with one stop.
kUnreachableScript = r"""
return [...document.querySelectorAll('button, input, select, summary, [tabindex]')].filter((e) => e.checkVisibility()
  && e.tabIndex < 0 && e.closest('[data-roving]')?.querySelectorAll('[tabindex="0"]').length !== 1)
  .map((e) => e.outerHTML.slice(0, 120));
"""

def numbers(text):
    return [float(part.replace(",", "")) for part in text.split(" ± ")]


class PageTest(pages.PageTest):
    """What a page of a report must do."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tabs = [e.get_attribute("id")[4:] for e in cls.browser.find_elements(By.CSS_SELECTOR, "[role=tab]")]
        more = ("#tab=diagnostics&view=depth", "#tab=curves&hide=0&smooth=0.5&x=step&y=log")
        cls.views = [f"#tab={tab}" for tab in cls.tabs] + [v for v in more if v[5:].split("&")[0] in cls.tabs]

    # -- helpers

    def click(self, selector):
        self.run_script("arguments[0].scrollIntoView({block: 'center'})", self.one(selector))
        self.one(selector).click()

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
        self.check_ready_in_time()
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
            for name, text in zip(columns, cells[4:]):
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

    def figure(self, run, name):
        """A figure of the summary, "loss.final" or "loss.best"; None where the run has none."""
        metric, what = name.rsplit(".", 1)
        values = [v for v in run["eval"].get(metric, []) if v is not None]
        best = min if self.data["metrics"][metric] == "lower" else max
        return (values[-1] if what == "final" else best(values)) if values else None

    def difference(self, a, b, name):
        """Of group b to group a over the seeds of both: mean, low and high of the 95 % interval."""
        of = lambda group: {run["seed"]: self.figure(run, name) for run in self.runs_of(group)}
        pairs = [value - of(a)[seed] for seed, value in of(b).items() if seed in of(a)]
        half = 12.7062 * statistics.stdev(pairs) / math.sqrt(2) if len(pairs) == 2 else math.nan
        return statistics.fmean(pairs), statistics.fmean(pairs) - half, statistics.fmean(pairs) + half

    def test_images_a_second_are_work_over_time(self):
        for row in self.all(".summary-table tr.group"):
            steps = seconds = 0
            for run in self.runs_of(int(row.get_attribute("data-group"))):
                for rate, last, step in zip(run["train"]["samples_per_s"], [0] + run["train"]["step"], run["train"]["step"]):
                    steps += step - last
                    seconds += (step - last) / rate
            shown = numbers(row.find_elements(By.TAG_NAME, "td")[-1].text)[0]
            self.assertTrue(math.isclose(shown, steps / seconds, rel_tol=1e-3), f"{shown} {steps / seconds}")

    def test_only_what_separates_is_marked(self):
        groups = range(len(self.data["groups"]))
        columns = [th.get_attribute("data-id") for th in self.all(".summary-table thead tr + tr th")]
        marked = []
        for row in self.all(".summary-table tr.group"):
            group = int(row.get_attribute("data-group"))
            for name, cell in zip(columns, row.find_elements(By.TAG_NAME, "td")[4:]):
                sign = -1 if self.data["metrics"].get(name.rsplit(".", 1)[0]) == "lower" else 1
                differences = [self.difference(other, group, name) for other in groups if other != group]
                wanted = bool(differences) and all(min(sign * v for v in d) > 0 and d[1] < d[2] for d in differences)
                self.assertEqual(wanted, "best" in cell.get_attribute("class").split(), f"{group} {name}")
                marked += [name] if wanted else []
        self.assertEqual(["loss.final", "loss.best"] if len(groups) > 1 else [], marked)

    def test_differences_have_their_interval(self):
        if len(self.data["groups"]) == 1:
            self.assertEqual([], self.all(".differences-table"))
            return
        heads = [th.text.replace(" ", ".") for th in self.all(".differences-table thead th")][2:]
        row = self.all(".differences-table tbody tr")[0].find_elements(By.TAG_NAME, "td")
        self.assertEqual("2", row[0].text)
        for name, cell in zip(heads, row[1:]):
            shown = [float(v.replace("−", "-")) for v in re.findall(r"[+−][\d.]+", cell.text)]
            for wanted, value in zip(self.difference(0, 1, name), shown, strict=True):
                self.assertLessEqual(abs(wanted - value), 0.02 * abs(wanted) + 0.06, f"{name}: {cell.text}")
        self.assertIn("best", row[1 + heads.index("loss.final")].get_attribute("class"))

    def test_tables_are_copied_as_latex_and_markdown(self):
        self.browser.execute_cdp_cmd("Browser.grantPermissions",
                                     {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
        rows = len(self.all(".summary-table tr.group"))
        copied = {}
        for form in ("LaTeX", "Markdown"):
            self.click(f"[aria-label='Copy the summary as {form}']")
            self.wait(lambda: self.one("#spoken").get_attribute("textContent").endswith(form), f"{form} is not copied")
            copied[form] = self.browser.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
        lines = copied["Markdown"].splitlines()
        self.assertEqual(rows + 2, len(lines))
        self.assertTrue(lines[0].startswith("| group | runs | seeds | epochs | ended | "), lines[0])
        self.assertEqual(1, len({line.count("|") for line in lines}), copied["Markdown"])
        for row, line in zip(self.all(".summary-table tr.group"), lines[2:]):
            texts = [cell.text for cell in row.find_elements(By.TAG_NAME, "td")]
            self.assertEqual(texts, [text.strip("* ") for text in line.split("|")[2:-1]])
        latex = copied["LaTeX"].splitlines()
        self.assertRegex(latex[0], r"^\\begin\{tabular\}\{lr+\}$")
        self.assertEqual("\\end{tabular}", latex[-1])
        body = [line for line in latex if line.endswith("\\\\")]
        self.assertEqual(rows + 1, len(body))
        self.assertEqual({len(latex[0]) - len("\\begin{tabular}{}") - 1}, {line.count(" & ") for line in body})
        self.assertEqual(rows > 1, "\\textbf{" in copied["LaTeX"])

    def test_the_summary_sorts_and_opens_its_runs(self):
        column = self.one(".summary-table thead tr + tr th").get_attribute("data-id")
        values = lambda: [numbers(row.find_elements(By.TAG_NAME, "td")[4].text)[0] for row in self.all("tr.group")]
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

    def test_every_view_can_be_read_and_reached(self):
        for view in pages.of_slice(self.views):
            self.check_view(view, kRoles, kUnreachableScript)
            self.check_headings(view)

    def test_a_theme_is_kept(self):
        for theme in kThemes:
            self.click(f"#theme input[value={theme}]")
            self.open("")
            self.assertEqual(theme, self.run_script("return document.documentElement.dataset.theme"))


if __name__ == "__main__":
    pages.main(PageTest, __doc__)
