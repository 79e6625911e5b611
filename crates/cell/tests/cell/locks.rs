//! What a command may not do, whatever its root holds.

use std::fs;

use windlass_cell::{Access, Level, Maker, Mount};

use super::common::{World, bind, bwrap};

/// The value of a line in `/proc/self/status` inside the cell.
fn status(world: &World, key: &str) -> String {
    let text = world.output("cat /proc/self/status");
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.trim().to_owned()
}

#[test]
fn no_capability_is_left_and_none_can_be_gained() {
    for world in World::by_all() {
        for key in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            assert_eq!(status(&world, key), "0000000000000000", "{key}");
        }
        assert_eq!(status(&world, "NoNewPrivs:"), "1");
        assert_eq!(status(&world, "Seccomp:"), "2");
    }
}

#[test]
fn no_namespace_can_be_made_and_no_mount_changed() {
    for world in World::by_all() {
        for line in [
            "unshare -r true",
            "unshare -m true",
            "unshare -n true",
            "unshare -U true",
            "mount -t tmpfs none /tmp",
            "umount /proc",
            "chroot / true",
            "hostname other",
            "date -s 2000-01-01",
            "mknod /tmp/x c 1 3",
            "nsenter -t 1 -m true",
        ] {
            let done = world.run(line);
            assert!(done.failure.is_none() && done.code != Some(0), "{line}: {done:?}");
        }
        assert_eq!(world.output("hostname || cat /proc/sys/kernel/hostname").trim(), "cell");
    }
}

#[test]
fn no_input_can_be_injected_into_a_terminal() {
    for world in World::by_all() {
        for request in ["0x5412", "0x541c"] {
            // Without the filter it is no terminal, which is another error.
            let line = format!(
                "python3 -c 'import errno, fcntl\ntry:\n  fcntl.ioctl(0, {request}, b\"x\")\nexcept OSError as error:\n  \
                 print(errno.errorcode[error.errno])'"
            );
            assert_eq!(world.output(&line).trim(), "EPERM", "{request}");
        }
    }
}

#[test]
fn an_ordinary_user_gets_the_same_cell() {
    for world in [Maker::Own, bwrap()].map(World::ordinary) {
        let listed = world.output("ls -A /");
        assert!(!listed.contains("etc") && !listed.contains("root"), "{listed}");
        for key in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            assert_eq!(status(&world, key), "0000000000000000", "{key}");
        }
        assert_eq!(
            world.output("echo 1 > a && cat a /dev/null && head -c 1 /dev/zero | wc -c"),
            "1\n1\n"
        );
        for line in [
            "unshare -r true",
            "mount -t tmpfs none /tmp",
            "touch /x",
            "touch /usr/x",
            "ls /proc/1/fd",
        ] {
            let done = world.run(line);
            assert!(done.failure.is_none() && done.code != Some(0), "{line}: {done:?}");
        }
    }
}

#[test]
fn the_user_stays_the_same() {
    for world in World::by_all() {
        let own = rustix::process::getuid().as_raw();
        assert_eq!(world.output("id -u").trim(), own.to_string());
        world.output("touch mine && chmod 600 mine && chmod +x mine");
        assert!(world.workspace().join("mine").exists());
    }
}

#[test]
fn there_is_no_terminal_and_no_inherited_descriptor() {
    for world in World::by_all() {
        assert_ne!(world.run("exec 3< /dev/tty").code, Some(0));
        assert_eq!(world.output("ls /proc/self/fd | wc -l").trim(), "4");
    }
}

#[test]
fn the_weaker_level_still_confines_writing() {
    let mut world = World::new();
    world.cell.level = Level::Landlock;
    world.cell.mounts = vec![bind(world.workspace(), Access::Write)];
    assert_eq!(world.output("echo 1 > a && cat a"), "1\n");
    let outside = world.folder.path().join("x");
    assert_ne!(world.run(&format!("touch {}", outside.display())).code, Some(0));
    assert!(!outside.exists());
    world.cell.mounts.push(Mount::Bind { path: "/no/such".into(), access: Access::Write });
    assert!(world.run("true").failure.unwrap().to_string().contains("/no/such"));
}

#[test]
fn the_weaker_level_reaches_no_socket_outside() {
    let mut world = World::new();
    world.cell.level = Level::Landlock;
    world.cell.mounts = vec![bind(world.workspace(), Access::Write)];
    let path = world.folder.path().join("socket");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_nonblocking(true).unwrap();
    let script = r#"
import socket, sys
def tried(what):
    try: return what()
    except OSError: pass
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    made = [tried(lambda: socket.socket(socket.AF_UNIX, kind))]
    made += tried(lambda: socket.socketpair(socket.AF_UNIX, kind)) or []
    for one in filter(None, made):
        tried(lambda: one.sendto(b'x', sys.argv[1]))
        tried(lambda: one.sendmsg([b'x'], [], 0, sys.argv[1]))
        tried(lambda: one.connect(sys.argv[1]))
a, b = socket.socketpair()
a.sendmsg([b'pair'])
print(b.recv(9))
"#;
    fs::write(world.workspace().join("script.py"), script).unwrap();
    let line = format!("python3 script.py {}", path.display());
    assert_eq!(world.output(&line), "b'pair'\n");
    let mut got = [0; 9];
    assert!(socket.recv(&mut got).is_err(), "{got:?}");
}

#[test]
fn files_outside_keep_their_mode_and_times() {
    for world in World::by_all() {
        let before = fs::metadata("/usr/bin/env").unwrap();
        for line in ["chmod 600 /usr/bin/env", "touch /usr/bin/env", "chown 65534 /usr/bin/env"] {
            assert_ne!(world.run(line).code, Some(0), "{line}");
        }
        let after = fs::metadata("/usr/bin/env").unwrap();
        assert_eq!(
            (before.permissions(), before.modified().unwrap()),
            (after.permissions(), after.modified().unwrap())
        );
    }
}
