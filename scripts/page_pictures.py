#!/usr/bin/env python3
"""Pictures of docs/gallery, by a browser without a window: of the explorer, of two networks compared, and of the report of runs.

    /usr/bin/python3 scripts/page_pictures.py build/release/bin/rewire docs/gallery [RUN…]

Needs scripts/setup.sh tests. The times in the pictures of kernels and of the roofline are this machine's.
"""
import argparse
import pathlib
import subprocess
import tempfile

from selenium import webdriver
from selenium.webdriver.common.by import By

KERNEL = "blocks_0_norm2_rows_64x50x192"


def browser(width, height):
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", f"--window-size={width},{height}"):
        options.add_argument(argument)
    driver = webdriver.Chrome(service=webdriver.chrome.service.Service("/usr/bin/chromedriver"), options=options)
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
    return driver


def show(driver, page, state, theme):
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})
    driver.get("about:blank")
    driver.get(f"file://{page}#{state}")


def light_up_a_sum(driver):
    """Gives the focus to the tile line of the inner product of stream and branch."""
    lines = driver.find_elements(By.CSS_SELECTOR, ".pane.tile [data-value]")
    line = [line for line in lines if "= sum " in line.text][1]
    driver.execute_script("arguments[0].focus()", line)


def draw_explorer(driver, rewire, page, folder):
    subprocess.run([rewire, "explore", "vit_tiny_28", "--plugin", "orthogonal", "--profile", "--output", page], check=True)
    show(driver, page, "place=blocks.0.attn&tab=formula", "light")
    driver.save_screenshot(str(folder / "explorer_formula.png"))
    show(driver, page, f"kernel={KERNEL}", "dark")
    light_up_a_sum(driver)
    driver.save_screenshot(str(folder / "explorer_kernel.png"))
    show(driver, page, "tab=roofline", "light")
    driver.save_screenshot(str(folder / "explorer_roofline.png"))
    for recompute in ("none", "block"):
        subprocess.run([rewire, "explore", "vit_tiny_28", "--set", f"train.recompute={recompute}", "--output", page], check=True)
        show(driver, page, "tab=memory", "light")
        driver.save_screenshot(str(folder / f"memory_recompute_{recompute}.png"))


def draw_diff(driver, rewire, page, folder):
    subprocess.run([rewire, "diff", "vit_tiny_28", "--plugin-b", "orthogonal", "--output", page], check=True)
    show(driver, page, "", "light")
    driver.execute_script("document.querySelector('.hunk').closest('details').scrollIntoView()")
    driver.save_screenshot(str(folder / "diff.png"))


def draw_report(driver, rewire, runs, page, folder):
    subprocess.run([rewire, "report", *runs, "--output", page], check=True)
    show(driver, page, "tab=curves", "light")
    driver.save_screenshot(str(folder / "report_curves.png"))
    show(driver, page, "tab=diagnostics", "dark")
    driver.save_screenshot(str(folder / "report_diagnostics.png"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rewire")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("runs", nargs="*", metavar="RUN")
    options = parser.parse_args()
    driver = browser(1280, 720)
    try:
        with tempfile.TemporaryDirectory() as folder:
            draw_explorer(driver, options.rewire, f"{folder}/explorer.html", options.folder)
            draw_diff(driver, options.rewire, f"{folder}/diff.html", options.folder)
            if options.runs:
                draw_report(driver, options.rewire, options.runs, f"{folder}/report.html", options.folder)
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
