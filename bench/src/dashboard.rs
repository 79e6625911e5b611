//! The dashboard of a project with a long history: pages and routes, events, streams, and what watching costs the calls.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::Value;
use windlass_runtime::Gateway;

use crate::agents::Project;
use crate::calls::{self, Kind};
use crate::growth::{self, LOOP};
use crate::{median, process, runs};

/// A loop whose runs wait for a person.
const ASKING_LOOP: &str = "---\nid: asks\ntitle: Asks\ntype: loop\ncategory: build\nversion: \"1\"\non_restart: hold\n\
    concurrency: serial\nphases:\n  - id: ask\n    doer: { person: \"ship it?\" }\n    gate:\n      id: ask\n      \
    verdicts: { approved: continue, rejected: block }\n---\nAsks.\n";
/// The runs that wait for a person.
const HELD: usize = 20;
/// The streams whose memory is measured.
const STREAMS: usize = 100;
/// Those who watch while calls are made.
const WATCHING: usize = 10;
/// The time between two requests: a visitor may send a hundred in a second.
const PACE: Duration = Duration::from_millis(11);

/// A running server, and who asks it.
struct Served {
    child: Child,
    address: String,
    cookie: String,
}

impl Served {
    fn start(project: &Project) -> Result<Self> {
        let mut command =
            project.command(&["windlass", "serve", "--listen", "127.0.0.1:0", "--json"]);
        let mut child = command.env("USER", "bench").stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let mut text = String::new();
        let printed: Value = loop {
            text.push_str(&lines.next().context("the server ended")??);
            if let Ok(value) = serde_json::from_str(&text) {
                break value;
            }
        };
        let word = |name: &str| printed.get(name).and_then(Value::as_str).context("no address");
        let (url, link) = (word("url")?, word("link")?);
        let address = url.split_once("://").context("no scheme")?.1.to_owned();
        let mut served = Self { child, address, cookie: String::new() };
        let (_, reply) = served.ask("POST", link.strip_prefix(url).context("a link elsewhere")?)?;
        let cookie = reply.lines().find_map(|line| line.strip_prefix("set-cookie: "));
        cookie
            .context("no cookie")?
            .split(';')
            .next()
            .unwrap_or_default()
            .clone_into(&mut served.cookie);
        Ok(served)
    }

    fn send(&self, method: &str, path: &str) -> Result<TcpStream> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let (host, cookie) = (&self.address, &self.cookie);
        let close = if path == EVENTS { "" } else { "connection: close\r\n" };
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\n{close}cookie: {cookie}\r\ncontent-length: 0\r\n\r\n"
        )?;
        Ok(stream)
    }

    /// Returns the milliseconds until the first byte, and the answer.
    fn ask(&self, method: &str, path: &str) -> Result<(f64, String)> {
        let started = Instant::now();
        let mut stream = self.send(method, path)?;
        let mut bytes = vec![0];
        stream.read_exact(&mut bytes)?;
        let took = started.elapsed().as_secs_f64() * 1e3;
        stream.read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let status = text.split(' ').nth(1).unwrap_or_default();
        ensure!(
            ["200", "303"].contains(&status),
            "{path}: {}",
            text.chars().take(2_000).collect::<String>()
        );
        Ok((took, text))
    }

    /// The answer of a route of the API.
    fn json(&self, path: &str) -> Result<Value> {
        let (_, text) = self.ask("GET", path)?;
        Ok(serde_json::from_str(text.split_once("\r\n\r\n").context("no body")?.1)?)
    }

    fn listen(&self) -> Result<BufReader<TcpStream>> {
        let mut reader = BufReader::new(self.send("GET", EVENTS)?);
        let mut line = String::new();
        while line != "event: ready\n" {
            line.clear();
            ensure!(reader.read_line(&mut line)? > 0, "the stream ended");
        }
        Ok(reader)
    }

    fn resident_kib(&self) -> Result<i64> {
        process::resident_kib_of(&self.child.id().to_string())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The stream of events.
const EVENTS: &str = "/api/v1/events";

/// Prints the figures of a server for a project with so many entries and runs.
pub fn measure(folder: &Path, entries: u64, made: usize, rounds: usize) -> Result<()> {
    let folder = folder.join("dashboard");
    std::fs::create_dir(&folder)?;
    let folder = folder.canonicalize()?;
    let project = Project::new(&folder)?;
    project.add_loops(&[("tiny", LOOP), ("asks", ASKING_LOOP)])?;
    let state = growth::state(&folder)?;
    let journal = state.join("windlass.db");
    runs::fill(&folder.join("engines"), &journal, made, HELD)?;
    drop(calls::fill(&journal, Kind::Write, entries)?);
    growth::time(project.command(&["windlass", "run", "--loop", "tiny", "nothing"]))?;
    let held = project.command(&["windlass", "run", "--loop", "asks", "nothing"]).status()?;
    ensure!(held.code() == Some(4), "a run that asks ended with {held}");
    let served = Served::start(&project)?;
    println!("the dashboard of a project with {made} runs and {entries} entries");
    first_bytes(&served, rounds)?;
    events(&served, &project, rounds)?;
    streams(&served, &project)?;
    watched(&served, &journal, rounds)
}

/// Prints the time until the first byte of every page and route.
fn first_bytes(served: &Served, rounds: usize) -> Result<()> {
    let text = |value: Option<&Value>| -> Result<String> {
        Ok(value.and_then(Value::as_str).context("no name")?.to_owned())
    };
    let id = text(served.json("/api/v1/projects")?.pointer("/0/id"))?;
    let run_in = |state: &str| -> Result<String> {
        let found = served.json(&format!("/api/v1/runs?state={state}&limit=1"))?;
        text(found.pointer("/runs/0/run"))
    };
    let (held, ended) = (run_in("on_hold")?, run_in("passed")?);
    let call = text(served.json(&format!("/api/v1/projects/{id}/calls"))?.pointer("/0/trace_id"))?;
    let checkpoints = served.json(&format!("/api/v1/projects/{id}/runs/{ended}/checkpoints"))?;
    let names: Vec<&str> = checkpoints
        .as_array()
        .context("no checkpoints")?
        .iter()
        .filter_map(|one| one.get("name").and_then(Value::as_str))
        .map(|name| name.rsplit('/').next().unwrap_or(name))
        .collect();
    let (first, last) = (*names.first().context("no checkpoint")?, *names.last().unwrap_or(&""));
    let api = format!("/api/v1/projects/{id}");
    let paths = [
        "/".to_owned(),
        "/runs".to_owned(),
        "/runs?text=no+run+has+this".to_owned(),
        "/runs?state=on_hold".to_owned(),
        "/new".to_owned(),
        "/journal".to_owned(),
        format!("/runs/{id}/{ended}"),
        format!("/runs/{id}/{ended}/checkpoints"),
        format!("/runs/{id}/{ended}/compare?from={first}&to={last}"),
        format!("/runs/{id}/{ended}/rollback?checkpoint={first}"),
        format!("/holds/{id}/{held}"),
        format!("/calls/{id}/{call}"),
        "/api/v1/projects".to_owned(),
        "/api/v1/runs".to_owned(),
        "/api/v1/runs?limit=200".to_owned(),
        "/api/v1/holds".to_owned(),
        format!("{api}/runs/{ended}"),
        format!("{api}/runs/{ended}/entries"),
        format!("{api}/runs/{ended}/checkpoints"),
        format!("{api}/runs/{ended}/compare?from={first}&to={last}"),
        format!("{api}/runs/{ended}/rollback?checkpoint={first}"),
        format!("{api}/holds/{held}"),
        format!("{api}/calls"),
        format!("{api}/calls/{call}"),
    ];
    println!(
        "  first byte of pages and routes, milliseconds, {rounds} requests each; the goal is a p99 of 50"
    );
    for path in paths {
        let mut times = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            times.push(served.ask("GET", &path)?.0);
            std::thread::sleep(PACE);
        }
        let shown = [(&id, "PROJECT"), (&ended, "RUN"), (&held, "HELD"), (&call, "CALL")];
        let shown = shown.iter().fold(path, |path, (name, word)| path.replace(name.as_str(), word));
        let (middle, late) = (median(times.iter().copied()), percentile_99(times));
        println!("    {shown:<72} median {middle:6.1}  p99 {late:6.1}");
    }
    Ok(())
}

/// The figure that 99 of 100 do not exceed.
fn percentile_99(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let at = (figures.len() * 99).div_ceil(100).saturating_sub(1);
    figures.get(at).copied().unwrap_or_default()
}

/// Prints how long after its time an entry is on the stream of events.
fn events(served: &Served, project: &Project, rounds: usize) -> Result<()> {
    let mut reader = served.listen()?;
    let mut late = Vec::new();
    for _ in 0..rounds.min(20) {
        let mut run = project.command(&["windlass", "run", "--loop", "tiny", "nothing"]).spawn()?;
        loop {
            let mut line = String::new();
            ensure!(reader.read_line(&mut line)? > 0, "the stream ended");
            let Some(data) = line.strip_prefix("data: ") else { continue };
            let event: Value = serde_json::from_str(data)?;
            // The first one only says that the stream is there.
            let Some(at) = event.get("at").and_then(Value::as_str) else { continue };
            let at: windlass_kernel::Timestamp =
                at.parse().map_err(|_| anyhow!("no time: {at}"))?;
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64() * 1e3;
            late.push(now - at.unix_ms() as f64);
            if event.get("kind").and_then(Value::as_str) == Some("ended") {
                break;
            }
        }
        run.wait()?;
    }
    let count = late.len();
    let (middle, most) = (median(late.iter().copied()), late.iter().copied().fold(0.0, f64::max));
    println!(
        "  an entry is on the event stream {middle:.0} ms after its time (median of {count}), p99 {:.0}, at most {most:.0}; the goal is 200",
        percentile_99(late)
    );
    Ok(())
}

/// Prints the memory that streams cost the server, after a run of which all are told.
fn streams(served: &Served, project: &Project) -> Result<()> {
    let before = served.resident_kib()?;
    let all: Result<Vec<_>> = (0..STREAMS).map(|_| served.listen()).collect();
    let mut all = all?;
    growth::time(project.command(&["windlass", "run", "--loop", "tiny", "nothing"]))?;
    for reader in &mut all {
        let mut line = String::new();
        while !line.contains("\"ended\"") {
            line.clear();
            ensure!(reader.read_line(&mut line)? > 0, "the stream ended");
        }
    }
    let grown = served.resident_kib()? - before;
    println!(
        "  {STREAMS} event streams: {:+.1} MiB of {:.1}; the goal is 50",
        grown as f64 / 1024.0,
        before as f64 / 1024.0
    );
    Ok(())
}

/// Prints the rate of calls with and without those who watch, one after the other, round by round.
fn watched(served: &Served, journal: &Path, rounds: usize) -> Result<()> {
    const SECONDS: f64 = 2.0;
    let gateway = calls::fill(journal, Kind::Write, 4)?;
    let number = AtomicUsize::new(0);
    let rounds = rounds.div_ceil(10);
    let mut ratios = Vec::new();
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let alone = rate(&gateway, &number, SECONDS)?;
        let beside = rate_beside(served, &gateway, &number, SECONDS)?;
        ratios.push(beside / alone);
        for (column, rate) in rates.iter_mut().zip([alone, beside]) {
            column.push(rate);
        }
    }
    let [alone, beside] = rates.map(|column| median(column.into_iter()));
    println!(
        "  calls per second: {alone:.0} alone, {beside:.0} while {WATCHING} streams are open and {WATCHING} pages are loaded each second: \
         {:.2} (median of {rounds}); the goal is 0.9",
        median(ratios.into_iter())
    );
    Ok(())
}

/// The rate of one caller.
fn rate(gateway: &Gateway, number: &AtomicUsize, seconds: f64) -> Result<f64> {
    let (started, mut made) = (Instant::now(), 0_u32);
    while started.elapsed().as_secs_f64() < seconds {
        let key = number.fetch_add(1, Ordering::Relaxed);
        calls::call(gateway, Kind::Write, format!("watched-{key}"))?;
        made += 1;
    }
    Ok(f64::from(made) / started.elapsed().as_secs_f64())
}

/// The same while streams are open and pages are loaded.
fn rate_beside(
    served: &Served,
    gateway: &Gateway,
    number: &AtomicUsize,
    seconds: f64,
) -> Result<f64> {
    let streams: Result<Vec<_>> = (0..WATCHING).map(|_| served.listen()).collect();
    let streams = streams?;
    let over = AtomicBool::new(false);
    let rate = std::thread::scope(|scope| {
        let load = || -> Result<()> {
            while !over.load(Ordering::Relaxed) {
                let started = Instant::now();
                for page in ["/", "/runs"].iter().cycle().take(WATCHING) {
                    served.ask("GET", page)?;
                }
                std::thread::sleep(Duration::from_secs(1).saturating_sub(started.elapsed()));
            }
            Ok(())
        };
        let loader = scope.spawn(load);
        let rate = rate(gateway, number, seconds);
        over.store(true, Ordering::Relaxed);
        loader.join().map_err(|_| anyhow!("a visitor panicked"))??;
        rate
    });
    drop(streams);
    rate
}
