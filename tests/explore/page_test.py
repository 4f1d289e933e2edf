"""Tests pages that `rewire explore` wrote, in a browser: python3 page_test.py PAGE.html…

Each page is opened from disk in headless chromium. All names (a block, a kernel) come from the page's own data. Exit
code 77: selenium, chromium or chromedriver is missing, nothing was tested. 1: a test failed.
"""

import math
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import pages  # noqa: E402: it ends the process where there is no browser
from pages import By, Keys, kThemes  # noqa: E402

# Interactive elements that the Tab key can't reach: neither a stop of their own, nor in a list with one stop.
kUnreachableScript = r"""
const bad = [];
const kInteractive = 'a[href], button, input, summary, [role=button], [role=tab], [role=option], [tabindex]';
for (const e of document.querySelectorAll(kInteractive)) {
  if (!e.checkVisibility() || e.tabIndex >= 0 || e.id === 'selection' || e.id === 'kernel-title') continue;
  const list = e.closest('[data-roving], [role=listbox]');
  const stops = list ? list.querySelectorAll('[tabindex="0"]').length : 0;
  if (!list || (list.matches('[data-roving]') && stops !== 1)) bad.push(e.outerHTML.slice(0, 120) + ` stops: ${stops}`);
}
return bad;
"""

# What a click on each tab takes, with the layout that it causes.
kOpenTabScript = r"""
const start = performance.now();
document.getElementById('tab-' + arguments[0]).click();
document.body.offsetHeight;
return performance.now() - start;
"""

kDiffRowsScript = r"""
return [...document.querySelectorAll('#panel-ir .row')].map((row) =>
  [row.querySelectorAll('.removed').length, row.querySelectorAll('.added').length, row.matches('.same')]);
"""

kDiffSignsScript = r"""
return [...document.querySelectorAll('#panel-ir .removed .sign, #panel-ir .added .sign')].map((s) => s.textContent);
"""

# The part of the page that has the focus, and whether the focus can be seen: an outline, or an outline drawn in SVG.
kFocusScript = r"""
const e = document.activeElement;
const part = e.closest('.search, #facts, #theme, #help-open, #drawing, #tabs, [role=tabpanel], thead, tbody');
const marked = e.matches('#theme input') ? e.nextElementSibling : e;
const seen = e === document.body || e.ownerSVGElement !== undefined || getComputedStyle(marked).outlineStyle !== 'none';
return [part ? part.id || part.className || part.tagName : '', seen];
"""

kOrderScript = r"""
return [...document.querySelectorAll('.kernel-table tbody tr')].map((row) => Number(row.cells[0].textContent));
"""

kMovingScript = r"""
return [...document.querySelectorAll('*')].filter((e) => {
  const s = getComputedStyle(e);
  return s.animationName !== 'none' || s.transitionDuration.split(', ').some((d) => d !== '0s')
      || s.scrollBehavior === 'smooth';
}).length;
"""

kInteractiveRoles = {"button", "link", "tab", "textbox", "combobox", "searchbox", "checkbox", "radio", "option",
                     "listbox", "tablist", "tabpanel", "dialog", "navigation"}


class PageTest(pages.PageTest):
    """What a page of the explorer must do."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tabs = ["formula", "ir", "step", "passes", "kernels", "memory"]
        if cls.data["ceilings"]:
            cls.tabs.append("roofline")

    # -- helpers

    def click(self, element):
        self.run_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def state(self):
        text = self.run_script("return decodeURIComponent(location.hash.slice(1))")
        return dict(part.split("=", 1) for part in text.split("&") if part)

    def first_block(self):
        """The place of the first block, or of the first node where the network has no joins."""
        node = (self.all("a.node.title") or self.all("a.node"))[0]
        return node, node.get_attribute("data-place")

    def first_join(self):
        return self.data["joins"][0] if self.data["joins"] else None

    def code_of(self, launch):
        return self.data["codes"][launch["code"]] if launch["code"] >= 0 else {}

    def key_of(self, i):
        """What names a launch in a link: its name, with its number where others have that name."""
        name = self.data["launches"][i]["name"]
        shared = sum(launch["name"] == name for launch in self.data["launches"]) > 1
        return f"{name}@{i}" if shared else name

    def emulate(self, feature, value):
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": feature, "value": value}]})

    def kernel_with_tile(self):
        """The number and the name of the first kernel that has tile IR and a name of its own."""
        for i, launch in enumerate(self.data["launches"]):
            if self.code_of(launch).get("tile") and self.key_of(i) == launch["name"]:
                return i, launch["name"]
        self.skipTest("no kernel has tile IR")

    def views(self):
        """Fragments that show each view: of the whole network, of a place and of a kernel."""
        _, place = self.first_block()
        out = [f"#tab={tab}" for tab in self.tabs] + [f"#place={place}&tab={tab}" for tab in self.tabs]
        return out + [f"#kernel={self.kernel_with_tile()[1]}"]

    # -- tests

    def test_the_first_view_is_ready_in_time(self):
        self.check_ready_in_time()
        self.assertEqual(self.data["model"], self.one("h1").text)

    def test_every_view_of_the_whole_network_is_drawn_in_time(self):
        def times():
            took = {}
            for tab in self.tabs:
                took[tab] = self.run_script(kOpenTabScript, tab)
                self.assertTrue(self.one(f"#panel-{tab}").text.strip(), f"{tab} is empty")
            return took

        self.check_least(times)

    def test_clicks_lead_from_a_block_to_an_operation_a_kernel_and_its_lines(self):
        node, place = self.first_block()
        self.click(node)
        self.assertEqual(place, self.state()["place"])
        self.assertEqual(place, self.one("#selection").text)
        self.click(self.one("#tab-step"))
        with_tile = {i for i, launch in enumerate(self.data["launches"]) if self.code_of(launch).get("tile")}
        if not self.all("#panel-step .op-row"):
            self.click(self.one("#panel-step .toggle"))
        self.run_script("document.querySelectorAll('#panel-step .toggle[aria-expanded=false]').forEach((e) => e.click())")
        numbers = self.run_script("return [...document.querySelectorAll('#panel-step .op-row a.chip')].map((e) => +e.textContent.slice(1))")
        first = next((i for i, number in enumerate(numbers) if number in with_tile), None)
        self.assertIsNotNone(first, "no operation of the block links to a kernel")
        number = numbers[first]
        self.click(self.all("#panel-step .op-row a.chip")[first])
        self.assertEqual(self.data["launches"][number]["name"], self.one("#kernel-title").text)
        self.assertFalse(self.one("#work").is_displayed())
        line = self.one(".pane.tile .line[data-value]")
        self.click(line)
        self.assertTrue(self.all(".pane.tile .lit-define"), "the line that defines the value lights up")
        self.click(self.one(".close"))
        self.assertTrue(self.one("#work").is_displayed())
        self.assertEqual({"place": place, "tab": "step"}, self.state())

    def test_lines_of_tile_and_cuda_with_the_same_value_light_up_together(self):
        """Checked against the texts: `%11 = add` and `add11[` are one value."""
        for i, launch in enumerate(self.data["launches"]):
            code = self.code_of(launch)
            body = "\n".join(l for l in code.get("cuda", "").split("\n") if not l.startswith("//"))
            pairs = re.findall(r"^ *%(\d+) : .*? = (\w+)", code.get("tile", ""), re.M)
            value = next((v for v, op in pairs if op != "load" and re.search(rf"\b{op}{v}\b", body)), None)
            if value:
                break
        else:
            self.skipTest("no CUDA text names a value of its tile text")
        op = dict(pairs)[value]
        self.open(f"#kernel={self.key_of(i)}")
        lines = self.all(f".pane.tile .line[data-value='{value}']")
        line = next(l for l in lines if re.match(rf"\s*%{value} :", l.get_attribute("textContent")))
        self.click(line)
        lit = [l.get_attribute("textContent") for l in self.all(".pane.cuda .lit")]
        self.assertEqual(len(re.findall(rf"^(?!//).*\b{op}{value}\b", code["cuda"], re.M)), len(lit))
        self.assertTrue(all(re.search(rf"\b{op}{value}\b", text) for text in lit))

    def test_a_join_shows_its_formula(self):
        join = self.first_join()
        if not join:
            self.skipTest("the network has no join")
        self.click(self.one("a.node.join"))
        self.assertEqual({"place": join["at"], "tab": "formula"}, self.state())
        self.assertTrue(self.all("#panel-formula .card.before math"))
        if join["rewritten"] and join["formulas"]:
            self.assertEqual(len(join["formulas"]), len(self.all("#panel-formula .card.after math")))
        rewritten = sum(j["rewritten"] for j in self.data["joins"])
        self.assertEqual(rewritten, len(self.all("a.node.join.rewritten")))

    def test_parameters_that_are_formulas_are_typed_text_beside_mathematics(self):
        self.assertEqual(any(plugin["name"] == "formula" for plugin in self.data["plugins"]),
                         any(plugin["notation"] for plugin in self.data["plugins"]))
        self.open("#tab=formula")
        texts = [formula["text"] for plugin in self.data["plugins"] for formula in plugin["notation"]]
        self.assertEqual(texts, [code.text for code in self.all("#panel-formula .notation code")])
        self.assertEqual(len(texts), len(self.all("#panel-formula .notation math")))

    def test_the_drawing_has_the_shape_of_the_stream_and_the_parameters_of_each_block(self):
        blocks = self.all("a.node.title")
        for node in blocks[:3]:
            place = node.get_attribute("data-place")
            total = sum(math.prod(int(n) for n in p["type"].split("[")[1].rstrip("]").split(","))
                        for p in self.data["rewritten"]["parameters"]
                        if p["trainable"] and p["name"].startswith(place + "."))
            shown, unit = re.match(r"([\d.]+) ?([kMG]?)", node.find_element(By.CSS_SELECTOR, ".size").text).groups()
            self.assertAlmostEqual(float(shown) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[unit] / total, 1, delta=6e-3)
        join = next(op for f in self.data["ir"]["functions"] for op in f["ops"] if op["op"] == "residual")
        shape = " × ".join(join["text"].split("[")[-1].rstrip("]").split(",")[1:])
        self.assertEqual([f"{shape} on the stream"], [e.text for e in self.all(".net .shape")])

    def test_a_table_says_once_how_many_it_holds(self):
        tables = [launch for launch in self.data["launches"] if len(launch["members"]) > 1]
        self.open("#tab=kernels")
        names = self.run_script("return [...document.querySelectorAll('#panel-kernels tbody th')].map((e) => e.innerText)")
        for launch in tables:
            row = next(name for name in names if launch["name"] in name.replace("\n", ""))
            self.assertEqual(1, row.count(f"table of {len(launch['members'])}"), row)

    def test_ceilings_under_load_are_marked(self):
        if not self.data["ceilings"]:
            return
        self.open("#tab=roofline")
        self.assertEqual("load" in self.data["ceilings"], bool(self.all("#panel-roofline .warning")))

    def test_the_ir_marks_what_the_plugins_changed(self):
        self.open("#tab=ir")

        def lines(stage):
            ops = [op for function in self.data[stage]["functions"] for op in function["ops"]]
            return sorted((op["at"], re.sub(r"%\d+", "%", op["text"])) for op in ops)

        before, after = lines("ir"), lines("rewritten")
        self.wait(lambda: not self.all("#panel-ir .chunk[style*=min-height]"), "not all chunks are built")
        rows = self.run_script(kDiffRowsScript)
        removed, added, same = (sum(row[k] for row in rows) for k in range(3))
        self.assertEqual(len(before), same + removed)
        self.assertEqual(len(after), same + added)
        if before == after:
            self.assertEqual((0, 0), (removed, added))
        self.assertEqual(["+"] * added + ["−"] * removed, sorted(self.run_script(kDiffSignsScript)))

    def test_search_works_by_keyboard(self):
        number, name = self.kernel_with_tile()
        self.keys("/")
        self.assertEqual("query", self.run_script("return document.activeElement.id"))
        self.keys(name)
        self.assertEqual("true", self.one("#query").get_attribute("aria-expanded"))
        first = self.one("#query").get_attribute("aria-activedescendant")
        self.keys(Keys.ARROW_DOWN)
        self.keys(Keys.ARROW_UP)
        self.assertEqual(first, self.one("#query").get_attribute("aria-activedescendant"))
        texts = [option.text for option in self.all("#results [role=option] .what")]
        for _ in range(texts.index(name)):
            self.keys(Keys.ARROW_DOWN)
        self.keys(Keys.ENTER)
        self.assertEqual(name, self.state()["kernel"])
        self.assertEqual("kernel-title", self.run_script("return document.activeElement.id"))
        self.keys(Keys.ESCAPE)
        self.assertNotIn("kernel", self.state())
        self.keys("/")
        self.keys("a name that is nowhere")
        self.assertIn("Nothing found", self.one("#results").text)
        self.keys(Keys.ESCAPE)
        self.assertFalse(self.one("#results").is_displayed())

    def test_an_operation_that_was_found_is_shown(self):
        op = next(op for f in self.data["step"]["functions"] for op in reversed(f["ops"]) if op["at"])
        self.keys("/")
        self.keys(op["text"])
        found = [o for o in self.all("#results .operation") if op["text"] in o.text and op["at"] in o.text]
        found[0].click()
        self.wait(lambda: self.all(".op-row.target"), "the operation is not shown")
        self.assertEqual(op["text"], self.one(".op-row.target .text").text)

    def test_links_open_what_they_name_and_back_returns(self):
        _, place = self.first_block()
        _, name = self.kernel_with_tile()
        self.open(f"#place={place}&tab=ir")
        self.assertEqual(place, self.one("#selection").text)
        self.assertTrue(self.one("#panel-ir").is_displayed())
        self.click(self.one("#tab-kernels"))
        self.assertEqual({"place": place, "tab": "kernels"}, self.state())
        self.click(self.one("#panel-kernels a.launch-name"))
        self.assertTrue(self.one("#kernel").is_displayed())
        self.browser.back()
        self.wait(lambda: self.one("#panel-kernels").is_displayed(), "back does not close the kernel")
        self.browser.back()
        self.wait(lambda: self.one("#panel-ir").is_displayed(), "back does not return to the view before")
        self.browser.forward()
        self.wait(lambda: self.one("#panel-kernels").is_displayed(), "forward does not go on")
        self.open(f"#kernel={name}")
        self.assertEqual(name, self.one("#kernel-title").text)
        self.open("#place=no.such.place&tab=none&kernel=none")
        self.assertTrue(self.one("#work").is_displayed())

    def test_the_kernels_table_sorts_by_each_column(self):
        self.open("#tab=kernels")
        launches = self.data["launches"]
        order = lambda: self.run_script(kOrderScript)
        self.assertEqual(list(range(len(launches))), order())
        columns = {"bytes": lambda l: l["bytes"], "flops": lambda l: l["flops"],
                   "intensity": lambda l: l["flops"] / l["bytes"] if l["bytes"] else 0}
        if any(l["ms"] for l in launches):
            columns["ms"] = lambda l: l["ms"] or 0
        self.assertEqual("ms" in columns, bool(self.all("th[data-id=ms]")))
        for column, of in columns.items():
            button = self.one(f"th[data-id={column}] button")
            self.click(button)
            self.assertEqual("descending", self.one(f"th[data-id={column}]").get_attribute("aria-sort"))
            self.assertEqual(sorted(range(len(launches)), key=lambda i: (-of(launches[i]), i)), order())
            self.click(button)
            self.assertEqual(sorted(range(len(launches)), key=lambda i: (of(launches[i]), i)), order())
        self.click(self.one("th[data-id=kind] button"))
        kinds = [launches[i]["kind"] for i in order()]
        self.assertEqual(sorted(kinds), kinds)

    def test_memory_shows_each_temporary(self):
        self.open("#tab=memory")
        self.assertEqual(len(self.data["memory"]["buffers"]), len(self.all("#panel-memory a.temporary")))

    def test_the_theme_follows_the_system_and_is_remembered(self):
        ground = lambda: self.run_script("return getComputedStyle(document.documentElement).backgroundColor")
        system = lambda scheme: self.emulate("prefers-color-scheme", scheme)
        bright = lambda text: sum(int(n) for n in re.findall(r"\d+", text)[:3]) > 384
        try:
            system("dark")
            self.assertFalse(bright(ground()))
            system("light")
            self.assertTrue(bright(ground()))
            self.click(self.one("#theme input[value=dark]"))
            self.assertFalse(bright(ground()))
            self.open("")
            self.assertFalse(bright(ground()))
            self.assertTrue(self.one("#theme input[value=dark]").is_selected())
            self.click(self.one("#theme input[value=system]"))
            self.assertTrue(bright(ground()))
        finally:
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    def test_every_view_can_be_read_and_reached(self):
        for view in pages.of_slice(self.views()):
            self.check_view(view, kInteractiveRoles, kUnreachableScript)
            self.check_headings(view)

    def test_search_and_keys_have_contrast_in_both_themes(self):
        for theme in kThemes:
            self.show_theme(theme)
            self.keys("/")
            self.keys("a")
            self.check_contrast(f"{theme} search")
            self.keys(Keys.ESCAPE, Keys.ESCAPE)
            self.one("#help-open").click()
            self.check_contrast(f"{theme} keys")
            self.keys(Keys.ESCAPE)

    def test_tab_walks_through_the_parts_of_the_page_with_visible_focus(self):
        self.open("#tab=kernels")
        reached = []
        for _ in range(40):
            self.keys(Keys.TAB)
            part, outlined = self.run_script(kFocusScript)
            reached.append(part)
            self.assertTrue(outlined, f"no visible focus in {part}")
        for part in ("search", "theme", "help-open", "drawing", "tabs", "panel-kernels", "THEAD", "TBODY"):
            self.assertIn(part, reached)

    def test_arrow_keys_move_in_lists(self):
        self.run_script("document.querySelector('a.node').focus()")
        first = self.run_script("return document.activeElement.getAttribute('aria-label')")
        self.keys(Keys.ARROW_DOWN)
        self.assertNotEqual(first, self.run_script("return document.activeElement.getAttribute('aria-label')"))
        self.keys("k")
        self.assertEqual(first, self.run_script("return document.activeElement.getAttribute('aria-label')"))
        self.keys(Keys.ENTER)
        self.assertEqual(self.one("a.node").get_attribute("data-place"), self.state()["place"])
        self.run_script("document.querySelector('#tab-formula').focus()")
        self.keys("2")
        self.assertEqual("ir", self.state()["tab"])
        self.keys(Keys.ARROW_RIGHT)
        self.assertEqual("step", self.state()["tab"])

    def test_the_keys_are_shown(self):
        self.keys("?")
        self.assertTrue(self.one("#help").is_displayed())
        self.keys(Keys.ESCAPE)
        self.wait(lambda: not self.one("#help").is_displayed(), "Esc does not close the keys")

    def test_nothing_moves_for_those_who_want_no_motion(self):
        self.emulate("prefers-reduced-motion", "reduce")
        try:
            self.open("")
            self.assertEqual(0, self.run_script(kMovingScript))
        finally:
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


if __name__ == "__main__":
    pages.main(PageTest, __doc__)
