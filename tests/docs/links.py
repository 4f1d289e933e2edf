#!/usr/bin/env python3
"""Every link of the documentation leads to a file that is there, and to a heading of it.

    links.py SOURCE
"""
import pathlib
import re
import sys

FOLDERS = ("bench", "docs", "examples", "plugins", "scripts", "tests")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def lines_outside_code(path):
    inside = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside:
            yield number, line


def anchor(heading):
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def anchors(path):
    return {anchor(line.lstrip("#")) for _, line in lines_outside_code(path) if line.startswith("#")}


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    pages = [*root.glob("*.md"), *(path for name in FOLDERS for path in (root / name).rglob("*.md"))]
    faults, links = [], 0
    for page in pages:
        for number, line in lines_outside_code(page):
            for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                if re.match(r"[a-z]+:", target):
                    continue
                links += 1
                name, _, place = target.partition("#")
                file = (page.parent / name).resolve() if name else page
                where = f"{page.relative_to(root)}:{number}: {target}"
                if not file.exists():
                    faults.append(f"{where}: there is no such file")
                elif place and place not in anchors(file):
                    faults.append(f"{where}: there is no such heading")
    print("\n".join([*faults, f"{links} links of {len(pages)} pages, {len(faults)} lead nowhere"]))
    return 1 if faults or links == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
