"""What the results were measured on, and with."""
import os
import platform
import re
import shutil
import subprocess

PEERS = ("ltrace", "uftrace", "bpftrace", "strace", "gdb", "hyperfine")


def cpu_model():
    with open("/proc/cpuinfo") as file:
        match = re.search(r"^model name\s*:\s*(.*)$", file.read(), re.M)
    return match.group(1) if match else platform.machine()


def describe():
    return {"cpu": cpu_model(), "cores": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20}


def load():
    return os.getloadavg()[0]


def package_version(name):
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout if done.returncode == 0 and done.stdout else None


def version(name):
    """As the package has it; else what the program says of itself; else None."""
    if shutil.which(name) is None:
        return None
    found = package_version(name)
    if found:
        return found
    done = subprocess.run([name, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout.splitlines()[0] if done.stdout else "?"


def versions(rtrace):
    done = subprocess.run([rtrace, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    found = {"rtrace": done.stdout.splitlines()[0] if done.stdout else "?"}
    for name in PEERS:
        found[name] = version(name) or "not installed"
    return found


def memory_folder():
    """Where files need no disk: emptying one that was just written waits for it on others. None where there is none."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
