import ctypes
import fcntl
import mmap
import os
import signal
import socket
import struct
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"


def breach(why=""):
    print("breach:" + os.environ["MARK"], why, flush=True)


def call(number, *arguments):
    """Makes a system call by its number; returns the result, or the error below zero."""
    ctypes.set_errno(0)
    plain = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *plain)
    return result if result >= 0 else -ctypes.get_errno()


def refuse(number, *arguments):
    """A system call that must fail."""
    result = call(number, *arguments)
    if result >= 0:
        breach("system call %d returned %d" % (number, result))
    return result


def attempt(action, *arguments):
    """Calls something that may raise."""
    try:
        return action(*arguments)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return None


def read(path):
    """Prints a file."""
    try:
        with open(path, "rb") as file:
            sys.stdout.buffer.write(file.read(1 << 16))
            sys.stdout.flush()
    except OSError as error:
        print(error, file=sys.stderr)


def connect(family, kind, address):
    """Connects and says so."""
    def go():
        s = socket.socket(family, kind)
        s.settimeout(1)
        s.connect(address)
        s.send(b"hello")
        return s
    return attempt(go)


def machine_code(code):
    """Runs machine code; returns its result."""
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return ctypes.CFUNCTYPE(ctypes.c_long)(address)()


def descriptors():
    return [int(name) for name in os.listdir("/proc/self/fd")]
