"""Tries to list the keys of SSH agents, and to let them sign. The words: a public key, and places of sockets."""
import base64, ctypes, os, socket, struct, subprocess, sys

public, doors = sys.argv[1], sys.argv[2:]
blob = base64.b64decode(public)
attempts = 0
if not os.access(".", os.W_OK):
    os.chdir("/tmp")


def packed(kind, *parts):
    body = bytes([kind]) + b"".join(parts)
    return struct.pack(">I", len(body)) + body


def text(part):
    return struct.pack(">I", len(part)) + part


LIST = packed(11)
SIGN = packed(13, text(blob), text(b"attack"), struct.pack(">I", 0))
EXTENSION = packed(27, text(b"query"))
OLD_LIST = packed(1)


def attempt(name, act):
    global attempts
    attempts += 1
    try:
        found = act()
    except (OSError, subprocess.SubprocessError, ValueError):
        return
    if found:
        print("breach:", name)


def address(door):
    return "\0" + door[1:] if door.startswith("@") else door


def speak(door, message, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_UNIX, kind) as agent:
        agent.settimeout(5)
        agent.connect(address(door))
        agent.sendall(message)
        return len(agent.recv(4096)) > 4


def run(words, **variables):
    clean = {name: value for name, value in os.environ.items() if name != "SSH_AUTH_SOCK"}
    clean.update(variables)
    done = subprocess.run(words, env=clean, capture_output=True, timeout=10, stdin=subprocess.DEVNULL)
    return public.encode() in done.stdout or b"BEGIN SSH SIGNATURE" in done.stdout + done.stderr


def relative(door):
    if door.startswith("@"):
        return False
    there = os.getcwd()
    try:
        os.chdir(os.path.dirname(door))
        return speak(os.path.basename(door), LIST)
    finally:
        os.chdir(there)


def linked(door):
    name = "link-of-%d" % attempts
    os.symlink(door, name)
    try:
        return speak(name, LIST)
    finally:
        os.unlink(name)


def by_root(door):
    return any(speak("/proc/%s/root%s" % (pid, door), LIST) for pid in ("self", "1"))


def passed_on(door):
    # The address of a datagram goes with the message.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        return agent.sendto(LIST, address(door)) > 0


def by_descriptor(door):
    folder = os.open(os.path.dirname(door), os.O_PATH)
    try:
        return speak("/proc/self/fd/%d/%s" % (folder, os.path.basename(door)), LIST)
    finally:
        os.close(folder)


def copied(door):
    # A hard link of a socket is the same socket.
    name = "hard-%d" % attempts
    os.link(door, name)
    try:
        return speak(name, LIST)
    finally:
        os.unlink(name)


for door in doors:
    attempt("list " + door, lambda: speak(door, LIST))
    attempt("sign " + door, lambda: speak(door, SIGN))
    attempt("extension " + door, lambda: speak(door, EXTENSION))
    attempt("old list " + door, lambda: speak(door, OLD_LIST))
    attempt("packets " + door, lambda: speak(door, LIST, socket.SOCK_SEQPACKET))
    attempt("datagram " + door, lambda: passed_on(door))
    attempt("relative " + door, lambda: relative(door))
    attempt("descriptor " + door, lambda: by_descriptor(door))
    attempt("link " + door, lambda: linked(door))
    attempt("hard link " + door, lambda: copied(door))
    attempt("root " + door, lambda: by_root(door))
    if not door.startswith("@"):
        attempt("ssh-add " + door, lambda: run(["ssh-add", "-L"], SSH_AUTH_SOCK=door))

with open("key.pub", "w") as key:
    key.write("ssh-ed25519 %s forwarded\n" % public)
with open("data", "w") as data:
    data.write("attack")
SIGNING = ["ssh-keygen", "-Y", "sign", "-n", "git", "-f", "key.pub"]
for door in doors[:4] + doors[-4:]:
    attempt("ssh-keygen " + door, lambda: run(SIGNING + ["data"], SSH_AUTH_SOCK=door) or os.path.exists("data.sig"))
    if os.path.exists("data.sig"):
        os.unlink("data.sig")
COMMIT = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "gpg.format=ssh", "-c", "user.signingkey=key.pub"]
attempt("git signs", lambda: subprocess.run(
    ["git"] + COMMIT + ["commit-tree", "-S", "-m", "x", "4b825dc642cb6eb9a060e54bf8d69288fbee4904"],
    capture_output=True, timeout=10).returncode == 0)

# The variable of whoever started Windlass, here and in all processes.
variable = os.environ.get("SSH_AUTH_SOCK")
attempt("the variable", lambda: variable and speak(variable, LIST))
attempt("ssh-add by the variable", lambda: variable and run(["ssh-add", "-L"], SSH_AUTH_SOCK=variable))
for pid in [name for name in os.listdir("/proc") if name.isdigit() and not os.environ.get("ONLY_THESE")]:
    def environment():
        text = open("/proc/%s/environ" % pid, "rb").read()
        found = [one.split(b"=", 1)[1].decode() for one in text.split(b"\0") if one.startswith(b"SSH_AUTH_SOCK=")]
        return any(speak(one, LIST) for one in found if one)
    attempt("the variable of process " + pid, environment)
for name in ("%h/.ssh/agent.sock", "SSH_AUTH_SOCK", "$SSH_AUTH_SOCK", "${HOME}/.ssh/agent.sock"):
    attempt("ssh with IdentityAgent " + name, lambda: run(
        ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=1", "-o", "IdentityAgent=" + name, "-v", "localhost"]))

# Whatever socket there is.
def known():
    lines = open("/proc/net/unix").read().splitlines()[1:]
    names = [line.split()[7] for line in lines if len(line.split()) > 7]
    return any([quiet(name) for name in names])


def quiet(name):
    try:
        return speak(name, LIST)
    except OSError:
        return False


# Without a cell these would be sockets of others.
if not os.environ.get("ONLY_THESE"):
    attempt("what the kernel lists", known)


def search(top):
    found = False
    for folder, _, files in os.walk(top):
        for name in files:
            path = os.path.join(folder, name)
            try:
                is_socket = (os.lstat(path).st_mode & 0o170000) == 0o140000
            except OSError:
                continue
            found = (is_socket and quiet(path)) or found
    return found


for top in ("/tmp", "/run", "/var", "/dev/shm", os.environ.get("HOME", "/root"), "."):
    if not os.environ.get("ONLY_THESE"):
        attempt("any socket in " + top, lambda: search(top))
for number in range(3, 64):
    def inherited():
        with socket.socket(fileno=os.dup(number)) as agent:
            agent.settimeout(1)
            agent.sendall(LIST)
            return len(agent.recv(64)) > 4
    attempt("descriptor %d" % number, inherited)


def ring():
    # A connection that the kernel makes for us, past filters of system calls.
    number = ctypes.CDLL(None, use_errno=True).syscall(425, 4, ctypes.create_string_buffer(120))
    return number >= 0


if not os.environ.get("ONLY_THESE"):
    attempt("io_uring", ring)
print("attempts: %d" % attempts)
