//! What a command sees and may change.

use std::fs;

use windlass_cell::{Access, Mount, Network};

use super::common::{World, bind};

#[test]
fn the_root_has_only_what_is_mounted() {
    let world = World::new();
    let listed = world.output("ls -A /");
    let mut names: Vec<&str> = listed.lines().collect();
    names.retain(|name| !["lib64", "sbin"].contains(name));
    assert_eq!(names, [".empty", "bin", "dev", "lib", "proc", "tmp", "usr"]);
    let inside = world.output("ls -A /dev /tmp");
    for name in ["null", "zero", "urandom", "fd", "pts", "shm", "ptmx"] {
        assert!(inside.lines().any(|line| line == name), "{name}: {inside}");
    }
    assert!(!inside.contains("kmsg") && !inside.contains("tty") && !inside.contains("mem"));
}

#[test]
fn only_the_workspace_can_be_changed() {
    for world in World::by_all() {
        world.output(
            "echo one > file && mkdir d && mv file d/f && cat d/f && rm -r d && echo x > y",
        );
        assert_eq!(fs::read_to_string(world.workspace().join("y")).unwrap(), "x\n");
        for line in [
            "touch /x",
            "touch /usr/x",
            "mkdir /proc/x",
            "touch /.empty",
            "rm /.empty",
            "rm -r /bin",
        ] {
            assert_ne!(world.run(line).code, Some(0), "{line}");
        }
        // What is private to the cell can be written, and is gone afterwards.
        world.output("touch /tmp/x /dev/shm/x && test -e /tmp/x");
        assert_ne!(world.run("test -e /tmp/x || test -e /dev/shm/x").code, Some(0));
    }
}

#[test]
fn a_read_only_workspace_cannot_be_changed() {
    for mut world in World::by_all() {
        fs::write(world.workspace().join("a"), "1").unwrap();
        world.cell.mounts.pop();
        world.cell.mounts.push(bind(world.workspace(), Access::Read));
        assert_eq!(world.output("cat a"), "1");
        for line in
            ["echo 2 > a", "rm a", "touch b", "chmod 600 a", "touch -d 2000-01-01 a", "ln a b"]
        {
            assert_ne!(world.run(line).code, Some(0), "{line}");
        }
        assert_eq!(fs::read_to_string(world.workspace().join("a")).unwrap(), "1");
    }
}

#[test]
fn a_protected_path_cannot_be_changed_moved_or_removed() {
    for mut world in World::by_all() {
        let folder = world.workspace().join("kept");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("a"), "1").unwrap();
        fs::write(world.workspace().join("secret"), "s3cret").unwrap();
        world.cell.mounts.push(bind(&folder, Access::Read));
        world.cell.mounts.push(Mount::Mask { path: world.workspace().join("secret") });
        for line in [
            "mv kept x",
            "rm -rf kept",
            "rmdir kept",
            "echo 2 > kept/a",
            "mv kept/a b",
            "mv secret x",
            "rm secret",
            "echo > secret",
        ] {
            assert_ne!(world.run(line).code, Some(0), "{line}");
        }
        assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "1");
        assert_eq!(world.output("cat secret"), "");
        assert_eq!(world.output("cat kept/a"), "1");
        assert_eq!(fs::read_to_string(world.workspace().join("secret")).unwrap(), "s3cret");
    }
}

#[test]
fn a_hidden_file_that_was_removed_keeps_nothing_from_running() {
    for mut world in World::by_all() {
        world.cell.mounts.push(Mount::Mask { path: world.workspace().join("gone") });
        world.cell.mounts.push(Mount::Mask { path: world.workspace().join("no/such/folder") });
        assert_eq!(world.output("ls"), "");
    }
}

#[test]
fn a_symbolic_link_in_the_workspace_redirects_no_mount() {
    for mut world in World::by_all() {
        let outside = world.folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, world.workspace().join("link")).unwrap();
        world.cell.mounts.push(bind(world.workspace().join("link"), Access::Read));
        let failure = world.run("true").failure.unwrap().to_string();
        assert!(failure.contains("link"), "{failure}");
        world.cell.mounts.pop();
        world.cell.mounts.push(Mount::Mask { path: world.workspace().join("link/x") });
        assert!(world.run("true").failure.is_some());
    }
}

#[test]
fn changes_of_an_overlay_go_to_its_upper_folder() {
    let mut world = World::new();
    let folder = |name: &str| {
        let path = world.folder.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    };
    let (lower, upper, work) = (folder("lower"), folder("up,per:1"), folder("work"));
    fs::write(lower.join("a"), "1").unwrap();
    fs::write(lower.join("b"), "1").unwrap();
    let place = world.workspace().join("over");
    fs::create_dir(&place).unwrap();
    world.cell.mounts.push(Mount::Overlay {
        path: place,
        lower: vec![lower.clone()],
        upper: upper.clone(),
        work,
    });
    world.output("cd over && echo 2 > a && rm b && echo 3 > c");
    let read = |path: &std::path::Path| fs::read_to_string(path).unwrap();
    assert_eq!((read(&lower.join("a")), read(&lower.join("b"))), ("1".to_owned(), "1".to_owned()));
    assert!(!lower.join("c").exists());
    assert_eq!(
        (read(&upper.join("a")), read(&upper.join("c"))),
        ("2\n".to_owned(), "3\n".to_owned())
    );
}

#[test]
fn only_processes_of_the_cell_are_seen_and_signalled() {
    for world in World::by_all() {
        let mut outside = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let count = world.output("ls /proc | grep -c '^[0-9]'");
        assert!(count.trim().parse::<u32>().unwrap() <= 5, "{count}");
        world.run(&format!("kill -9 {}; kill -9 -1", outside.id()));
        assert!(outside.try_wait().unwrap().is_none());
        outside.kill().unwrap();
        outside.wait().unwrap();
        for line in [
            "echo 1 > /proc/sys/kernel/printk",
            "echo x > /proc/self/comm",
            "echo b > /proc/sysrq-trigger",
        ] {
            assert_ne!(world.run(line).code, Some(0), "{line}");
        }
    }
}

#[test]
fn nothing_but_loopback_is_reached() {
    for world in World::by_all() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
        assert_ne!(world.run(&format!("bash -c '{connect}'")).code, Some(0));
        let server = "import socket,threading
s=socket.create_server(('127.0.0.1',0))
threading.Thread(target=lambda: s.accept()[0].sendall(b'hi'),daemon=True).start()
print(socket.create_connection(s.getsockname()).recv(9))";
        fs::write(world.workspace().join("server.py"), server).unwrap();
        assert_eq!(
            world.output("/usr/bin/env python3 server.py || /usr/bin/python3 server.py").trim(),
            "b'hi'"
        );
    }
}

#[test]
fn the_broker_gets_a_socket_inside_the_cell() {
    for mut world in World::by_all() {
        world.cell.network = Network::Broker;
        let line = format!(
            "bash -c 'exec 3<>/dev/tcp/127.0.0.1/{} && cat <&3'",
            windlass_cell::BROKER_PORT
        );
        let (mut launcher, mut child) = world.start(&line);
        let listener = loop {
            child.update().unwrap();
            if let Some(listener) = child.take_listener() {
                break listener;
            }
            assert!(!child.has_ended(), "{:?}", child.failure());
            std::thread::yield_now();
        };
        let (mut connection, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut connection, b"from outside").unwrap();
        drop(connection);
        let mut output = String::new();
        std::io::Read::read_to_string(launcher.stdout.as_mut().unwrap(), &mut output).unwrap();
        launcher.wait().unwrap();
        assert_eq!(output, "from outside");
    }
}
