#!/usr/bin/env python3
"""Trains with two ranks on two network namespaces, as on two machines: MPI over TCP.

    two_machines.py REWIRE [plain|delay|lost ...]

plain   the same weights as one process with the same shards
delay   the same, where each frame takes 20 ms more in each direction
lost    all frames are lost from a moment on: both ranks end within 30 seconds, one line names a rank, and one process
        can go on from the last checkpoint, to the same weights

Needs root, /dev/net/tun and Open MPI's mpirun; otherwise exits with 77.
"""
import collections
import fcntl
import hashlib
import os
import pathlib
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

A, B = f"rewire-a-{os.getpid()}", f"rewire-b-{os.getpid()}"
SETTINGS = ("model.dim=24", "model.depth=2", "model.heads=2", "model.patch=7", "model.dropout=0.1",
            "data.format=synthetic", "data.count=512", "data.threads=1", "train.threads=1", "train.batch=16",
            "train.shards=2", "train.checkpoint_every=0.25", "train.log_every=10")
LONGEST = 30 + 5  # seconds to the end of all ranks; five are for the launcher and a busy machine


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def ip(*words):
    subprocess.run(("ip", *words), check=True, capture_output=True)


class Relay:
    """Two Ethernet ports, one in each namespace, and what passes from one to the other."""

    def __init__(self):
        self.delay, self.lost, self.frames, self.ended = 0.0, False, 0, False
        self.ports = [self.port(name, namespace, number)
                      for name, namespace, number in (("rwa", A, 1), ("rwb", B, 2))]
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    @staticmethod
    def port(name, namespace, number):
        tun, tap_without_header = 0x400454CA, 0x0002 | 0x1000
        name = f"{name}{os.getpid() % 100000}"
        file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(file, tun, struct.pack("16sH22x", name.encode(), tap_without_header))
        ip("link", "set", name, "netns", namespace)
        ip("-n", namespace, "addr", "add", f"10.77.0.{number}/24", "dev", name)
        ip("-n", namespace, "link", "set", name, "up")
        ip("-n", namespace, "link", "set", "lo", "up")
        return file

    def run(self):
        waiting = collections.deque()  # (when, to, frame)
        while not self.ended:
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, to, frame = waiting.popleft()
                try:
                    os.write(to, frame)
                except OSError:
                    pass  # the port is full: lost, as on a wire
            timeout = 0.1 if not waiting else min(0.1, max(0.0, waiting[0][0] - now))
            for port in select.select(self.ports, [], [], timeout)[0]:
                frame = os.read(port, 65536)
                if self.lost:
                    continue
                self.frames += 1
                waiting.append((time.monotonic() + self.delay, self.ports[port == self.ports[0]], frame))

    def end(self):
        self.ended = True
        self.thread.join()
        for port in self.ports:
            os.close(port)


def digest(run):
    return hashlib.sha256((run / "weights.safetensors").read_bytes()).hexdigest()


def train_words(run, epochs):
    words = ["train", "vit_tiny_28", "--no-autotune", "--plain", "--out", str(run)]
    for setting in (*SETTINGS, f"train.epochs={epochs}"):
        words += ["--set", setting]
    return words


def alone(rewire, *words):
    return subprocess.run((rewire, *words), capture_output=True, text=True, timeout=300)


class Machines:
    def __init__(self, rewire, folder):
        self.rewire, self.folder = rewire, folder
        self.agent, self.output = folder / "agent", folder / "output"
        # What mpirun calls in place of ssh: AGENT HOST COMMAND.
        self.agent.write_text(f"#!/bin/sh\nshift\nexec ip netns exec {B} unshare --uts sh -c "
                              "\"hostname machine-b; $*\"\n")
        self.agent.chmod(0o755)

    def start(self, words):
        network = "10.77.0.0/24"
        launcher = ["ip", "netns", "exec", A, "mpirun", "--allow-run-as-root", "--bind-to", "none", "-n", "2", "-H",
                    "10.77.0.1:1,10.77.0.2:1", "--mca", "plm_rsh_agent", str(self.agent), "--mca", "btl", "tcp,self",
                    "--mca", "btl_tcp_if_include", network, "--mca", "oob_tcp_if_include", network,
                    # Otherwise mpirun waits for minutes until it takes a machine for lost (docs/guide/scale.md).
                    "--mca", "oob_tcp_keepalive_time", "5", "--mca", "oob_tcp_keepalive_intvl", "5",
                    "--mca", "oob_tcp_keepalive_probes", "3"]
        # Into a file: the launcher's daemon on the other machine may live on, with the other end of a pipe.
        with open(self.output, "wb") as output:
            return subprocess.Popen([*launcher, self.rewire, *words], stdout=output, stderr=subprocess.STDOUT)


def processes(name):
    """The processes of this name on both machines."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "comm").read_text().strip() == name:
                environment = (entry / "environ").read_bytes()
                if f"REWIRE_TWO_MACHINES={os.getpid()}".encode() in environment:
                    found.append(int(entry.name))
        except OSError:
            pass
    return found


def check(holds, what, text=""):
    if not holds:
        print(f"FAILED: {what}\n{text}")
        sys.exit(1)


def same_weights(machines, relay, name, delay, epochs, expected):
    run = machines.folder / name
    relay.delay, relay.frames = delay, 0
    begin = time.monotonic()
    process = machines.start(train_words(run, epochs))
    process.wait(timeout=400)
    text = machines.output.read_text(errors="replace")
    check(process.returncode == 0, f"{name}: exit code {process.returncode}", text)
    check(relay.frames > 1000, f"{name}: {relay.frames} frames have passed", text)
    check(digest(run) == expected, f"{name}: other weights than one process", text)
    print(f"{name}: the weights of one process, {relay.frames} frames, {time.monotonic() - begin:.1f} s")


def lost_connection(machines, relay, epochs, expected):
    run = machines.folder / "lost"
    relay.delay = 0.0
    process = machines.start(train_words(run, epochs))
    last = run / "checkpoints" / "last"
    while not last.exists():
        check(process.poll() is None, "lost: it ended before its first checkpoint")
        time.sleep(0.01)
    relay.lost = True
    begin = time.monotonic()
    while processes("rewire") and time.monotonic() < begin + 100:
        time.sleep(0.1)
    seconds = time.monotonic() - begin
    left = processes("rewire")
    for rank in left:
        os.kill(rank, 9)
    try:
        process.wait(timeout=60)
        launcher = f"mpirun ended after {time.monotonic() - begin:.1f} s with {process.returncode}"
    except subprocess.TimeoutExpired:
        process.kill()
        check(False, "lost: mpirun is still there", machines.output.read_text(errors="replace"))
    text = machines.output.read_text(errors="replace")
    for daemon in processes("orted"):
        os.kill(daemon, 9)
    lines = [line for line in text.splitlines() if line.startswith("rewire: ")]
    check(not left and seconds < LONGEST, f"lost: ranks were there after {seconds:.0f} s", text)
    check(any(" has said nothing for 20 s" in line for line in lines), "lost: no line names the silent rank", text)
    again = alone(machines.rewire, "train", "--no-autotune", "--plain", "--resume", str(run))
    check(again.returncode == 0, "lost: it cannot be resumed", again.stderr)
    check(digest(run) == expected, "lost: resumed to other weights")
    print(f"lost: both ranks ended after {seconds:.1f} s, {launcher}; resumed by one process to the same weights")
    print("  " + "\n  ".join(lines))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    rewire, wanted = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:] or ["plain", "delay", "lost"]
    if os.geteuid() != 0 or not os.path.exists("/dev/net/tun"):
        skip("needs root and /dev/net/tun")
    if shutil.which("mpirun") is None or shutil.which("ip") is None:
        skip("needs mpirun and ip")
    os.environ["REWIRE_TWO_MACHINES"] = str(os.getpid())
    try:
        for namespace in (A, B):
            ip("netns", "add", namespace)
        relay = Relay()
    except (OSError, subprocess.CalledProcessError) as error:
        for namespace in (A, B):
            subprocess.run(("ip", "netns", "del", namespace), capture_output=True, check=False)
        skip(f"no namespaces or ports here: {error}")
    try:
        with tempfile.TemporaryDirectory() as folder:
            machines = Machines(rewire, pathlib.Path(folder))
            expected = {}
            for epochs in {2 if name != "lost" else 40 for name in wanted}:
                run = machines.folder / f"alone-{epochs}"
                result = alone(rewire, *train_words(run, epochs))
                check(result.returncode == 0, "one process", result.stderr)
                expected[epochs] = digest(run)
            for name in wanted:
                if name == "lost":
                    lost_connection(machines, relay, 40, expected[40])
                else:
                    same_weights(machines, relay, name, {"plain": 0.0, "delay": 0.02}[name], 2, expected[2])
    finally:
        relay.end()
        for namespace in (A, B):
            subprocess.run(("ip", "netns", "del", namespace), capture_output=True, check=False)


main()
