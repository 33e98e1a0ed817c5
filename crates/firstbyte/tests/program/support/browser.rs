//! A browser that uses a page like a person: it clicks, types, looks, and reports errors in the page.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use firstbyte_clients::devtools::DevTools;
use firstbyte_clients::interruption::Interruption;
use firstbyte_clients::process::{ClientCommand, ClientProcess};
use firstbyte_clock::Monotonic;
use serde_json::{Value, json};

/// Nothing that a page does takes this long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// A tab of a separate browser, which ends with it.
pub(crate) struct Tab {
    devtools: DevTools,
    session: String,
}

impl Tab {
    pub(crate) fn open() -> Self {
        let mut arguments: Vec<String> = [
            "--headless",
            "--remote-debugging-pipe",
            "--user-data-dir={home}/profile",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
            "--no-proxy-server",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--password-store=basic",
        ]
        .map(str::to_owned)
        .to_vec();
        if nix::unistd::Uid::effective().is_root() {
            arguments.push("--no-sandbox".to_owned());
        }
        let command = ClientCommand {
            program: "chromium".to_owned(),
            package: "chromium",
            arguments,
            files: Vec::new(),
            trusted_pem: Vec::new(),
            nss_database: None,
            environment: vec![("TZ", "UTC")],
        };
        let process = ClientProcess::start(&command).unwrap();
        let devtools = DevTools::over(process, Arc::new(Interruption::default())).unwrap();
        let mut tab = Self { devtools, session: String::new() };
        let target = tab.browser("Target.createTarget", &json!({ "url": "about:blank" }));
        let target = target["targetId"].clone();
        let attached = json!({ "targetId": target, "flatten": true });
        let session = tab.browser("Target.attachToTarget", &attached)["sessionId"].clone();
        session.as_str().unwrap().clone_into(&mut tab.session);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            tab.call(domain, &json!({}));
        }
        tab
    }

    fn browser(&mut self, method: &str, parameters: &Value) -> Value {
        self.devtools.call(None, method, parameters, PATIENCE).unwrap()
    }

    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        let session = self.session.clone();
        self.devtools.call(Some(&session), method, parameters, PATIENCE).unwrap()
    }

    pub(crate) fn go(&mut self, url: &str) {
        self.call("Page.navigate", &json!({ "url": url }));
    }

    /// The browser's back key. It takes effect after this call, because a document that is left answers nothing.
    pub(crate) fn back(&mut self) {
        self.value("void setTimeout(() => history.back())");
    }

    /// Evaluates an expression.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let asked =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", &asked);
        assert_eq!(answer["exceptionDetails"], Value::Null, "{expression}");
        answer["result"]["value"].clone()
    }

    pub(crate) fn text(&mut self, selector: &str) -> String {
        let value = self
            .value(&format!("document.querySelector({})?.textContent ?? null", json!(selector)));
        value
            .as_str()
            .unwrap_or_else(|| panic!("nothing is {selector}: {}", self.page()))
            .to_owned()
    }

    fn page(&mut self) -> String {
        self.value("location.href + '\\n' + document.body.innerText").as_str().unwrap().to_owned()
    }

    /// Waits until the expression is true.
    pub(crate) fn until(&mut self, expression: &str) {
        let begun = Monotonic::now();
        // Nothing answers while one document is replaced by the next.
        while !self.is_true(expression) {
            if Monotonic::now().since(begun) > PATIENCE {
                panic!("never: {expression}\n{}\n{:?}", self.page(), self.complaints());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_true(&mut self, expression: &str) -> bool {
        let asked =
            json!({ "expression": format!("Boolean({expression})"), "returnByValue": true });
        let session = self.session.clone();
        let answer = self.devtools.call(Some(&session), "Runtime.evaluate", &asked, PATIENCE);
        answer.is_ok_and(|answer| answer["result"]["value"] == true)
    }

    /// Clicks the middle of an element.
    pub(crate) fn click(&mut self, selector: &str) {
        let find = format!(
            "(() => {{ const e = document.querySelector({}); e.scrollIntoView({{ block: 'center' }}); const b = e.getBoundingClientRect(); \
             return [b.x + b.width / 2, b.y + b.height / 2]; }})()",
            json!(selector)
        );
        let at = self.value(&find);
        self.mouse("mousePressed", [at[0].as_f64().unwrap(), at[1].as_f64().unwrap()]);
        self.mouse("mouseReleased", [at[0].as_f64().unwrap(), at[1].as_f64().unwrap()]);
    }

    pub(crate) fn mouse(&mut self, kind: &str, [x, y]: [f64; 2]) {
        let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1 });
        self.call("Input.dispatchMouseEvent", &event);
    }

    pub(crate) fn key(&mut self, key: &str) {
        let text = match key {
            "Enter" => "\r",
            _ if key.chars().count() == 1 => key,
            _ => "",
        };
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "Tab" => 9,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            "Home" => 36,
            _ => 0,
        };
        let press = json!({ "type": if text.is_empty() { "rawKeyDown" } else { "keyDown" }, "key": key, "text": text,
                            "windowsVirtualKeyCode": code });
        self.call("Input.dispatchKeyEvent", &press);
        self.call(
            "Input.dispatchKeyEvent",
            &json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code }),
        );
    }

    pub(crate) fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", &json!({ "text": text }));
    }

    pub(crate) fn look(&mut self, width: u32, is_dark: bool) {
        let metrics =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", &features);
    }

    /// Saves a picture of the top of the page as `name.png`, if `FIRSTBYTE_GALLERY` is set.
    pub(crate) fn picture(&mut self, name: &str) {
        let Some(directory) = std::env::var_os("FIRSTBYTE_GALLERY") else { return };
        let size = self.value(
            "[document.documentElement.clientWidth, Math.min(document.documentElement.scrollHeight, 2200)]",
        );
        let clip = json!({ "x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1 });
        let asked = json!({ "captureBeyondViewport": true, "clip": clip });
        let shot = self.call("Page.captureScreenshot", &asked);
        let bytes = base64(shot["data"].as_str().unwrap());
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(Path::new(&directory).join(format!("{name}.png")), bytes).unwrap();
    }

    /// The pages' complaints: errors, exceptions, violations of their policy.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        let events = self.devtools.take_events();
        let bad = events.into_iter().filter(|event| match event.method.as_str() {
            "Runtime.exceptionThrown" => true,
            "Runtime.consoleAPICalled" => event.params["type"] == "error",
            "Log.entryAdded" => event.params["entry"]["level"] == "error",
            _ => false,
        });
        bad.map(|event| event.params.to_string()).collect()
    }
}

fn base64(text: &str) -> Vec<u8> {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for c in text.bytes().filter(|c| *c != b'=') {
        bits = bits << 6 | digits.iter().position(|digit| *digit == c).unwrap() as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}
