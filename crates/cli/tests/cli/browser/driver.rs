//! A browser, driven over the WebDriver protocol: the few requests of it that the tests need.

use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The driver of Debian's browser.
const DRIVER: &str = "chromedriver";
/// The key under which the protocol has an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// How long something may take to appear.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked for.
const TICK: Duration = Duration::from_millis(20);

/// The size and manner of a window.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub name: &'static str,
    pub width: u32,
    pub height: u32,
    pub scheme: &'static str,
}

pub const DESK: Look = Look { name: "desk-light", width: 1280, height: 900, scheme: "light" };
pub const DESK_DARK: Look = Look { name: "desk-dark", width: 1280, height: 900, scheme: "dark" };
pub const PHONE: Look = Look { name: "phone-light", width: 360, height: 740, scheme: "light" };
pub const PHONE_DARK: Look = Look { name: "phone-dark", width: 360, height: 740, scheme: "dark" };

/// A window of a browser.
pub struct Browser {
    driver: Child,
    /// Open, so that the driver can go on to write.
    _output: Lines<BufReader<ChildStdout>>,
    port: u16,
    session: String,
}

impl Browser {
    /// Opens a browser; nothing if there is none.
    pub fn open() -> Option<Self> {
        let mut command = Command::new(DRIVER);
        command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null());
        let mut driver = match command.spawn() {
            Ok(driver) => driver,
            Err(error) => {
                let reason = format!(
                    "no browser: `{DRIVER}` {error}; apt-get install chromium chromium-driver"
                );
                assert!(std::env::var_os("WINDLASS_TEST_BROWSER").is_none(), "{reason}");
                windlass_testkit::skipped(&reason);
                return None;
            }
        };
        let mut lines = BufReader::new(driver.stdout.take().expect("its output")).lines();
        let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let port = line.split("on port ").nth(1)?;
            port.trim_end_matches('.').parse().ok().filter(|port| *port != 0)
        });
        let mut browser =
            Self { driver, _output: lines, port: port.expect("a port"), session: String::new() };
        let options = json!({ "args": [
            "--headless=new", "--hide-scrollbars", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--disable-background-networking", "--disable-component-update", "--no-first-run",
        ] });
        let capabilities =
            json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": options } } });
        let made = browser.request("POST", "/session", &capabilities);
        browser.session = made["sessionId"].as_str().expect("a session").to_owned();
        browser.look(DESK);
        Some(browser)
    }

    /// Sends a request to the driver and returns its value.
    #[track_caller]
    fn request(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.try_request(method, path, body);
        assert!(answer.get("error").is_none(), "{method} {path} {body}: {answer}");
        answer
    }

    fn try_request(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the driver");
        stream.set_read_timeout(Some(3 * PATIENCE)).expect("a timeout");
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a line of the head");
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
            if line.is_empty() {
                break;
            }
        }
        // The driver keeps the connection open.
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes).expect("a body");
        let answer: Value = serde_json::from_slice(&bytes).expect("JSON");
        answer["value"].clone()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.request("POST", &format!("/session/{}{path}", self.session), body)
    }

    /// A command of the browser's own protocol.
    fn tell(&self, name: &str, parameters: &Value) -> Value {
        self.post("/goog/cdp/execute", &json!({ "cmd": name, "params": parameters }))
    }

    /// Changes the size and the colours.
    pub fn look(&self, look: Look) {
        let is_phone = look.width < 600;
        self.tell(
            "Emulation.setDeviceMetricsOverride",
            &json!({ "width": look.width, "height": look.height, "deviceScaleFactor": 1, "mobile": is_phone }),
        );
        let scheme = json!([{ "name": "prefers-color-scheme", "value": look.scheme }]);
        self.tell("Emulation.setEmulatedMedia", &json!({ "features": scheme }));
    }

    /// Switches the scripts of pages off.
    pub fn without_scripts(&self) {
        self.tell("Emulation.setScriptExecutionDisabled", &json!({ "value": true }));
    }

    /// Goes to a page.
    pub fn go(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    /// The tab.
    pub fn tab(&self) -> String {
        let path = format!("/session/{}/window", self.session);
        self.request("GET", &path, &Value::Null).as_str().expect("a tab").to_owned()
    }

    /// Opens one more tab, and goes on in it.
    pub fn new_tab(&self) {
        let made = self.post("/window/new", &json!({ "type": "tab" }));
        self.go_on_in(made["handle"].as_str().expect("a tab"));
    }

    /// Goes on in a tab, which is the one that is seen.
    pub fn go_on_in(&self, tab: &str) {
        self.post("/window", &json!({ "handle": tab }));
        self.tell("Page.bringToFront", &json!({}));
    }

    /// Says no to what a page asks.
    pub fn dismiss(&self) {
        self.post("/alert/dismiss", &json!({}));
    }

    /// The address of the page.
    pub fn address(&self) -> String {
        let path = format!("/session/{}/url", self.session);
        self.request("GET", &path, &Value::Null).as_str().expect("an address").to_owned()
    }

    /// Waits for an element and returns its id.
    #[track_caller]
    pub fn find(&self, css: &str) -> String {
        let path = format!("/session/{}/element", self.session);
        let started = Instant::now();
        loop {
            let body = json!({ "using": "css selector", "value": css });
            let found = self.try_request("POST", &path, &body);
            if let Some(id) = found.get(ELEMENT).and_then(Value::as_str) {
                return id.to_owned();
            }
            assert!(
                started.elapsed() < PATIENCE,
                "no `{css}` at {}: {}",
                self.address(),
                self.text("body")
            );
            std::thread::sleep(TICK);
        }
    }

    /// The text of an element that is there.
    #[track_caller]
    pub fn text(&self, css: &str) -> String {
        let id = self.find(css);
        let path = format!("/session/{}/element/{id}/text", self.session);
        // An element that was just replaced has no text any more.
        self.try_request("GET", &path, &Value::Null).as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an element has a text.
    #[track_caller]
    pub fn until(&self, css: &str, part: &str) {
        let started = Instant::now();
        loop {
            let text = self.text(css);
            if text.contains(part) {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "no `{part}` in `{css}`: {text}");
            std::thread::sleep(TICK);
        }
    }

    /// Clicks on an element.
    #[track_caller]
    pub fn click(&self, css: &str) {
        self.act_on(css, "click", &json!({}));
    }

    /// Types into an element.
    #[track_caller]
    pub fn enter(&self, css: &str, text: &str) {
        self.act_on(css, "value", &json!({ "text": text }));
    }

    /// Acts on an element, again if it was replaced in that moment: then nothing was done.
    #[track_caller]
    fn act_on(&self, css: &str, action: &str, body: &Value) {
        let started = Instant::now();
        loop {
            let path = format!("/session/{}/element/{}/{action}", self.session, self.find(css));
            let answer = self.try_request("POST", &path, body);
            let is_stale = answer["error"] == "stale element reference";
            if !is_stale || started.elapsed() >= PATIENCE {
                assert!(answer.get("error").is_none(), "{action} `{css}`: {answer}");
                return;
            }
            std::thread::sleep(TICK);
        }
    }

    /// Runs a script in the page and returns its value.
    #[track_caller]
    pub fn script(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// What the browser has complained about since the last time.
    pub fn complaints(&self) -> Vec<Value> {
        let logged = self.post("/se/log", &json!({ "type": "browser" }));
        logged.as_array().cloned().unwrap_or_default()
    }

    /// Writes a picture of the whole page.
    pub fn picture(&self, file: &Path) {
        let metrics = self.tell("Page.getLayoutMetrics", &json!({}));
        let size = &metrics["cssContentSize"];
        self.picture_of(file, &size["width"], &size["height"]);
    }

    /// Writes a picture of the upper left part of the page.
    pub fn picture_of(&self, file: &Path, width: &Value, height: &Value) {
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
        let taken = self.tell(
            "Page.captureScreenshot",
            &json!({ "format": "png", "captureBeyondViewport": true, "clip": clip }),
        );
        let bytes = decode(taken["data"].as_str().expect("a picture"));
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        std::fs::write(file, bytes).expect("written");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            drop(self.try_request("DELETE", &format!("/session/{}", self.session), &Value::Null));
        }
        drop(self.driver.kill());
        drop(self.driver.wait());
    }
}

/// Decodes base64.
fn decode(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in text.bytes().filter_map(|byte| DIGITS.iter().position(|one| *one == byte)) {
        bits = bits << 6 | u32::try_from(digit).expect("six bits");
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).expect("a byte"));
        }
    }
    bytes
}
