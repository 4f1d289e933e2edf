"""Completion in the real shells, at a terminal: what a person types, Tab, and what the line is then.

    shells_test.py bash|zsh|fish REWIRE FIXTURES

FIXTURES has the library gain.so. Exit code 77: the shell or python3-pexpect is missing, nothing was tested. 1: a test failed.
"""
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

try:
    import pexpect
except ImportError:
    print("skipped: python3-pexpect is missing")
    sys.exit(77)

SHELL, REWIRE, FIXTURES = sys.argv[1:4]
if shutil.which(SHELL) is None:
    print(f"skipped: {SHELL} is missing")
    sys.exit(77)

# By their first two letters; each would run a command, or be another word, if a shell read it unescaped.
HOSTILE = ("aa$(touch PWNED)`touch PWNED`z", "bb'; touch PWNED; 'z", 'cc"; touch PWNED; "!!\\z', "dd a:b=c{d,e}*~#&z")
kWaits = (0.1, 0.5, 2, 5)  # seconds for an answer, tried in turn until it is there
HOME, LEFT = tempfile.mkdtemp(prefix="rewire-shell-"), "\x01"
# The program is on the path by its name, and nothing of this user's is found.
ENVIRONMENT = {"HOME": HOME, "TERM": "xterm" if SHELL == "fish" else "dumb", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "PS1": "ready> ", "INPUTRC": "/dev/null",
               "PATH": f"{HOME}/bin:{os.environ['PATH']}", "XDG_DATA_HOME": f"{HOME}/data", "XDG_CONFIG_HOME": f"{HOME}/config",
               "XDG_CACHE_HOME": f"{HOME}/cache"}
for name in ("ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS"):
    if name in os.environ:
        ENVIRONMENT[name] = os.environ[name]


def write(name, text=""):
    path = os.path.join(HOME, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def set_up():
    os.makedirs(f"{HOME}/bin")
    os.symlink(REWIRE, f"{HOME}/bin/rewire")
    os.makedirs(f"{HOME}/data/rewire/plugins")
    shutil.copy(f"{FIXTURES}/gain.so", f"{HOME}/data/rewire/plugins/mine.so")
    for name in ("recipe.toml", "metrics.jsonl"):
        write(f"work/runs/first-none-s0/{name}")
    for name in HOSTILE:
        for file in ("recipe.toml", "metrics.jsonl"):
            write(f"work/own/{name}/{file}")
        write(f"work/files/{name}.toml")
    write("work/my recipe.toml")
    write("work/notes.txt")
    write("elsewhere/x.toml")
    script = subprocess.run([REWIRE, "completion", SHELL], capture_output=True, text=True, check=True).stdout
    write({"bash": "rewire.bash", "zsh": "functions/_rewire", "fish": "config/fish/completions/rewire.fish"}[SHELL], script)


class Terminal:
    """An interactive shell in the folder work."""

    def __init__(self):
        command = {"bash": ["bash", "--noprofile", "--norc", "-i"], "zsh": ["zsh", "-f", "-i"],
                   "fish": ["fish", "--no-config", "-i"]}[SHELL]
        if SHELL == "fish":  # which finds its completions by itself, but not without its configuration
            command = ["fish", "-i"]
        self.child = pexpect.spawn(command[0], command[1:], env=ENVIRONMENT, cwd=f"{HOME}/work", encoding="utf-8", timeout=20,
                                   dimensions=(60, 200))
        set_up_lines = {
            "bash": ["bind 'set enable-bracketed-paste off'", "bind 'set bell-style none'", f"source {HOME}/rewire.bash"],
            "zsh": ["PS1='ready> '; RPS1=", "bindkey -e; unsetopt zle_bracketed_paste beep 2>/dev/null; unset zle_bracketed_paste",
                    f"fpath=({HOME}/functions $fpath); autoload -Uz compinit; compinit -u -D"],
            "fish": ["function fish_prompt; echo 'ready> '; end; set -g fish_greeting; set -g fish_autosuggestion_enabled 0"]}
        for line in set_up_lines[SHELL]:
            self.child.sendline(line)
        self.child.sendline("echo set''up")
        self.child.expect_exact("setup\r\n")

    def line(self, typed, tabs, wait):
        """The words of the line after Tab, of which the last has END behind it, or is END where a blank came first."""
        self.child.send(typed)
        for _ in range(tabs):
            self.child.send("\t")
            time.sleep(wait)
        self.child.send("END; echo en''d" + LEFT + "printf '<%s>' BEGIN " + "\r")
        self.child.expect(r"<BEGIN>((?:<[^>]*>)+)end")
        return self.child.match.group(1)[1:-1].split("><")

    def listed(self, typed, tabs, wait):
        """What is shown below the line."""
        self.child.send(typed)
        for _ in range(tabs):
            self.child.send("\t")
            time.sleep(wait)
        self.child.send("\x03")
        self.child.sendline("echo list''ed")
        self.child.expect_exact("listed\r\n")
        return self.child.before

    def close(self):
        self.child.close(force=True)


def expect(terminal, typed, wanted, part=list):
    """The line, or a part of it, after Tab; a busy machine gets more time to answer."""
    stays = wanted[-1:] == [typed.split()[-1] + "END"]  # which it also does before there is an answer
    for wait in kWaits[1 if stays else 0:]:
        have = part(terminal.line(typed, 1, wait))
        if have == wanted:
            return
    print(f"{SHELL}: {typed}: the line is {have}, not {wanted}")
    sys.exit(1)


def check_lines(terminal):
    for typed, words in [
            ("rewire dum", ["dump", "END"]),
            ("rewire data prev", ["data", "preview", "END"]),
            ("rewire dump vit_tiny_28 --stage fus", ["dump", "vit_tiny_28", "--stage", "fused", "END"]),
            ("rewire train vit_tiny_28 --set train.bat", ["train", "vit_tiny_28", "--set", "train.batch=END"]),
            ("rewire train vit_tiny_28 --set train.dtype=b", ["train", "vit_tiny_28", "--set", "train.dtype=bf16", "END"]),
            ("rewire train vit_tiny_28 --plugin min", ["train", "vit_tiny_28", "--plugin", "mine", "END"]),
            ("rewire train vit_tiny_28 --plugin mine:lay", ["train", "vit_tiny_28", "--plugin", "mine:layers=END"]),
            ("rewire train vit_tiny_28 --plugin mine:layers=0,sit",
             ["train", "vit_tiny_28", "--plugin", "mine:layers=0,sites=END"]),
            ("rewire train --resume fir", ["train", "--resume", "firEND"]),
            ("rewire train --resume run", ["train", "--resume", "runs/first-none-s0", "END"]),
            ("rewire train my", ["train", "my recipe.toml", "END"]),
            ("rewire train 'my re", ["train", "my recipe.toml", "END"]),
            ("rewire train ../els", ["train", "../elsewhere/END"]),
            ("rewire train --device=cu", ["train", "--device=cuda", "END"]),
            ("rewire nosuch x", ["nosuch", "xEND"])]:
        if typed.count("'") == 1:
            # Within quotes, which the shell closes as it completes; some leave no blank behind.
            expect(terminal, typed, ["rewire"] + words[:-1], lambda have: [word.removesuffix("END") for word in have if word != "END"])
        else:
            expect(terminal, typed, ["rewire"] + words)


def check_hostile(terminal):
    """Names of others come back as they are, whatever quote is open; nothing of them runs at Enter."""
    kinds = (("own", ""), ("files", ".toml"))  # runs are words, recipes files: for bash that differs
    for folder, ending in kinds if SHELL == "bash" else kinds[:1]:
        for name in HOSTILE:
            for quote in ("", "'", '"'):
                typed = f"rewire train --resume {quote}own/{name[:2]}" if folder == "own" else f"rewire train {quote}files/{name[:2]}"
                expect(terminal, typed, f"{folder}/{name}{ending}",
                       lambda have: (have[-1] if have[-1] != "END" else have[-2]).removesuffix("END"))
    for found in ("work/PWNED", "PWNED"):
        if os.path.exists(f"{HOME}/{found}"):
            print(f"{SHELL}: a file's name was run as a command")
            sys.exit(1)


def check_within_words(terminal):
    """After what the shell takes for the end of a word, and after a quote within one."""
    if SHELL != "bash":
        return
    for typed, words in [('rewire train vit_tiny_28 --set="train.dtype=b', ["train", "vit_tiny_28", "--set=train.dtype=bf16"]),
                         ("rewire train vit_tiny_28 --set 'train.dtype=b", ["train", "vit_tiny_28", "--set", "train.dtype=bf16"]),
                         ("rewire train vit_tiny_28 --set train.dtype\\=b", ["train", "vit_tiny_28", "--set", "train.dtype=bf16"])]:
        expect(terminal, typed, ["rewire"] + words, lambda have: [word for word in have if word != "END"])


def check_list(terminal):
    for wait in kWaits:
        shown = terminal.listed("rewire plugin ", 3, wait)
        missing = [text for text in ("test", "new", "begin a strategy of your own") if text not in shown]
        if not missing:
            return
    print(f"{SHELL}: {missing} is not in the list of `rewire plugin `: {shown!r}")
    sys.exit(1)


def check_answers():
    """Quick, and without a word on stderr, whatever the environment is."""
    words = {"bash": lambda line: ["bash", line, "=:"], "zsh": lambda line: ["zsh"] + line.split(" ")[1:],
             "fish": lambda line: ["fish"] + line.split(" ")[1:]}[SHELL]
    least = {}
    for line in ("rewire ", "rewire train vit_tiny_28 --set train.", "rewire train x --plugin ", "rewire eval ", "rewire '", "rewire"):
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run([REWIRE, "__complete"] + words(line), capture_output=True, text=True, cwd=HOME,
                                  env={**ENVIRONMENT, "REWIRE_PLUGIN_PATH": "not/absolute"})
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            least[line] = min(took, least.get(line, took))
            if done.returncode != 0 or done.stderr:
                print(f"{line!r}: exit {done.returncode}, {done.stderr!r}")
                sys.exit(1)
    print("seconds of a processor:", {line: round(took, 3) for line, took in least.items()})
    if max(least.values()) > 0.1 and "ASAN_OPTIONS" not in os.environ:
        print("an answer takes more than 100 ms")
        sys.exit(1)


try:
    set_up()
    terminal = Terminal()
    check_lines(terminal)
    check_hostile(terminal)
    check_within_words(terminal)
    check_list(terminal)
    terminal.close()
    check_answers()
    print(f"passed: {SHELL}")
finally:
    for _ in range(20):  # fish may still be writing
        shutil.rmtree(HOME, ignore_errors=True)
        if not os.path.exists(HOME):
            break
        time.sleep(0.1)
