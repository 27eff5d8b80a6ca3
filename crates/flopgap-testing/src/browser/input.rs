//! Mouse, wheel, fingers and keys.

use serde_json::{Value, json};

use crate::browser::{Browser, Error};

/// The bits of the protocol for keys held down.
const CONTROL: u32 = 2;

/// The path of a finger: its first place and its last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Swipe {
    /// Where it touches down.
    pub from: (f64, f64),
    /// Where it is lifted.
    pub to: (f64, f64),
}

impl Swipe {
    /// The position of a finger after a fraction of its path.
    fn at(self, share: f64) -> (f64, f64) {
        let between = |from: f64, to: f64| from + (to - from) * share;
        (between(self.from.0, self.to.0), between(self.from.1, self.to.1))
    }
}

impl Browser {
    /// Moves the mouse to a place in the window.
    ///
    /// # Errors
    /// [`Error::Failed`] when the browser is gone.
    pub fn point(&mut self, x: f64, y: f64) -> Result<(), Error> {
        self.mouse("mouseMoved", (x, y), "none", 0)?;
        self.wait_until_drawn()
    }

    /// Clicks `count` times at a place in the window.
    ///
    /// # Errors
    /// [`Error::Failed`] when the browser is gone.
    pub fn click(&mut self, x: f64, y: f64, count: u32) -> Result<(), Error> {
        for clicks in 1..=count {
            self.mouse("mousePressed", (x, y), "left", clicks)?;
            self.mouse("mouseReleased", (x, y), "left", clicks)?;
        }
        self.wait_until_drawn()
    }

    /// Drags the mouse from one place to another.
    ///
    /// # Errors
    /// [`Error::Failed`] when the browser is gone.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64)) -> Result<(), Error> {
        self.mouse("mouseMoved", from, "none", 0)?;
        self.mouse("mousePressed", from, "left", 1)?;
        for step in 1..=8 {
            self.mouse("mouseMoved", Swipe { from, to }.at(f64::from(step) / 8.0), "left", 0)?;
        }
        self.mouse("mouseReleased", to, "left", 1)?;
        self.wait_until_drawn()
    }

    fn mouse(&mut self, kind: &str, at: (f64, f64), button: &str, count: u32) -> Result<Value, Error> {
        let held = u32::from(kind != "mouseReleased" && button == "left");
        let event = json!({ "type": kind, "x": at.0, "y": at.1, "button": button, "buttons": held, "clickCount": count });
        self.command("Input.dispatchMouseEvent", &event)
    }

    /// Turns the wheel, with the control key or without.
    ///
    /// # Errors
    /// [`Error::Failed`] when the browser is gone.
    pub fn wheel(&mut self, x: f64, y: f64, down: f64, control: bool) -> Result<(), Error> {
        let modifiers = if control { CONTROL } else { 0 };
        let event = json!({ "type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": down, "modifiers": modifiers });
        self.command("Input.dispatchMouseEvent", &event)?;
        self.wait_until_drawn()
    }

    /// Moves fingers over the page.
    ///
    /// # Errors
    /// [`Error::Failed`] when the browser is gone.
    pub fn fingers(&mut self, fingers: &[Swipe]) -> Result<(), Error> {
        for step in 0..=10 {
            let place = |(id, finger): (usize, &Swipe)| {
                let (x, y) = finger.at(f64::from(step) / 10.0);
                json!({ "id": id, "x": x, "y": y })
            };
            let points: Vec<Value> = fingers.iter().enumerate().map(place).collect();
            let kind = if step == 0 { "touchStart" } else { "touchMove" };
            self.command("Input.dispatchTouchEvent", &json!({ "type": kind, "touchPoints": points }))?;
        }
        self.command("Input.dispatchTouchEvent", &json!({ "type": "touchEnd", "touchPoints": [] }))?;
        self.wait_until_drawn()
    }

    /// Presses a key by its name in the DOM, such as `ArrowRight` or `+`.
    ///
    /// # Errors
    /// [`Error::Failed`] when the browser is gone.
    pub fn key(&mut self, key: &str) -> Result<(), Error> {
        // Only what is typed presses a button or opens details.
        let typed = if key == "Enter" { "\r" } else { key };
        let is_typed = typed.chars().count() == 1;
        let mut down = json!({ "type": if is_typed { "keyDown" } else { "rawKeyDown" }, "key": key });
        if is_typed {
            down["text"] = typed.into();
        }
        // Only the code of a key moves the focus or scrolls.
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            _ => 0,
        };
        if code != 0 {
            down["windowsVirtualKeyCode"] = code.into();
            down["code"] = key.into();
        }
        self.command("Input.dispatchKeyEvent", &down)?;
        down["type"] = "keyUp".into();
        self.command("Input.dispatchKeyEvent", &down)?;
        self.wait_until_drawn()
    }
}
