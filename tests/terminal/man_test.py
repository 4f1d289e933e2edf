"""The manual pages, read by man and lexgrog: no warning, a NAME that whatis finds, and every option of --help.

    man_test.py REWIRE

Exit code 77: man or lexgrog is missing, nothing was tested. 1: a test failed.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

REWIRE = sys.argv[1]
for tool in ("man", "lexgrog", "groff"):
    if shutil.which(tool) is None:
        print(f"skipped: {tool} is missing")
        sys.exit(77)
ENVIRONMENT = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80", "MAN_KEEP_FORMATTING": "", "PAGER": "cat", "MANROFFOPT": ""}


def output(*words):
    return subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT)


def fail(text):
    print(text)
    sys.exit(1)


def main(folder):
    if output(REWIRE, "man", "--output", folder).returncode != 0:
        fail("rewire man --output fails")
    commands = [line.split("  ")[1] for line in output(REWIRE, "--help").stdout.split("Commands:\n")[1].split("\n\n")[0].split("\n")]
    pages = {"rewire": None, **{"rewire-" + command.replace(" ", "-"): command for command in commands}}
    if sorted(os.listdir(folder)) != sorted(f"{page}.1" for page in pages):
        fail(f"the pages are {sorted(os.listdir(folder))}")
    for page, command in pages.items():
        file = f"{folder}/{page}.1"
        shown = output("man", "--warnings=w", "-E", "UTF-8", "-l", file)
        if shown.returncode != 0 or shown.stderr:
            fail(f"{page}: man says {shown.stderr}")
        named = output("lexgrog", file).stdout
        if f'"{page} - ' not in named:
            fail(f"{page}: lexgrog says {named}")
        text = re.sub("\x1b\\[[0-9;]*m|.\b", "", shown.stdout)
        wanted = commands if command is None else re.findall(r"^  (--[a-z-]+)", output(REWIRE, *command.split(), "--help").stdout, re.M)
        for word in wanted:
            if word.replace(" ", "-") not in text:
                fail(f"{page}: it does not name {word}")
        again = output(REWIRE, "man", *([] if command is None else command.split()))
        if again.stdout != open(file).read():
            fail(f"{page}: the file and `rewire man` differ")
    if output(REWIRE, "man", "dmup").returncode != 2:
        fail("a command that there is not has a page")
    print(f"passed: {len(pages)} pages")


directory = tempfile.mkdtemp(prefix="rewire-man-")
try:
    main(directory)
finally:
    shutil.rmtree(directory)
