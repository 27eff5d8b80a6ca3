//! `hyper-profile` on FAKE counters: the program of the tests that kill, starve and corrupt it. It
//! measures nothing.
//!
//! The counts are the closed forms, so that every overhead is 0, and the device calls itself a fake
//! in every file. What goes wrong is set by environment variables that only this program reads:
//!
//! - `FAKE_DELAY_US`: how long a configuration takes;
//! - `FAKE_DEVICE`, `FAKE_DRIVER`: what the device and the driver call themselves;
//! - `FAKE_MEMORY`: how many bytes fit on the device;
//! - `FAKE_BUSY`: the name of a configuration from which on the counters are in use by someone
//!   else, or `all`;
//! - `FAKE_FAIL`, `FAKE_LOST`, `FAKE_PANIC`: the name of a configuration that cannot be measured,
//!   loses the device, or panics;
//! - `FAKE_LOG`: a file that gets a line for each configuration that is measured, with the process;
//! - `FAKE_SUBCOMMAND`: the program is this subcommand of another, as it is of `flopgap`, and takes
//!   nothing else.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use flopgap_cli::Restart;
use flopgap_phases::Phase;
use flopgap_phases::sweep::{Config, Meter, MeterError, Quantity, Record};
use hyper_profile::hardware::{Counted, Device, Hardware};

fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = env::args_os().collect();
    let mut restart = Restart::default();
    if let Some(subcommand) = variable("FAKE_SUBCOMMAND") {
        assert!(arguments.get(1).is_some_and(|first| *first == *subcommand), "this is `{subcommand}`");
        restart = restart.by(&subcommand);
        arguments.remove(1);
    }
    hyper_profile::run_on(&Fake, &restart, arguments).into()
}

struct Fake;

fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

impl Hardware for Fake {
    fn device(&self, index: u32) -> Result<Device, MeterError> {
        if index > 3 {
            let what = format!("fake device {index} does not exist");
            return Err(MeterError::Unavailable { what, hint: Some("there are 0 to 3".to_owned()) });
        }
        Ok(Device {
            name: variable("FAKE_DEVICE").unwrap_or_else(|| "FAKE device of a test".to_owned()),
            compute_capability: (9, 0),
            driver: variable("FAKE_DRIVER").unwrap_or_else(|| "no driver".to_owned()),
            framework: "no network was run".to_owned(),
            counters: "FAKE counters of a test: closed forms, not measured".to_owned(),
        })
    }

    fn meter(&self, index: u32, _: Counted) -> Result<Box<dyn Meter + '_>, MeterError> {
        self.device(index)?;
        if variable("FAKE_BUSY").is_some_and(|text| text == "all") {
            return Err(busy());
        }
        let delay_us = variable("FAKE_DELAY_US").and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok(Box::new(FakeMeter { delay: Duration::from_micros(delay_us) }))
    }

    fn run(&self, _index: u32, config: Config) -> Result<(), MeterError> {
        obstacle(config)
    }
}

struct FakeMeter {
    delay: Duration,
}

impl Meter for FakeMeter {
    fn measure(&mut self, config: Config) -> Result<Record, MeterError> {
        thread::sleep(self.delay);
        obstacle(config)?;
        if let Some(log) = variable("FAKE_LOG") {
            let line = format!("{} {config}\n", std::process::id());
            let mut log = File::options().append(true).create(true).open(log).expect("the log opens");
            log.write_all(line.as_bytes()).expect("the log takes a line");
        }
        Ok(closed_forms(config))
    }
}

fn busy() -> MeterError {
    let hint = Some("end the other fake".to_owned());
    MeterError::Unavailable { what: "the fake counters are in use".to_owned(), hint }
}

/// What the environment has in store for a configuration.
fn obstacle(config: Config) -> Result<(), MeterError> {
    let is = |name| variable(name).is_some_and(|text| text == config.to_string());
    assert!(!is("FAKE_PANIC"), "as FAKE_PANIC asks for");
    if is("FAKE_BUSY") {
        return Err(busy());
    }
    if is("FAKE_LOST") {
        return Err(MeterError::Lost { message: "the fake device fell off the bus".to_owned() });
    }
    if is("FAKE_FAIL") {
        return Err(MeterError::Failed { message: "no fake kernel for this shape".to_owned() });
    }
    let needed = 4 * (config.n * config.d * config.d + 2 * config.n * config.d * config.m);
    match variable("FAKE_MEMORY").and_then(|text| text.parse().ok()) {
        Some(available) if needed > available => Err(MeterError::DoesNotFit { needed, available }),
        _ => Ok(()),
    }
}

/// Exactly the FLOPs of the theory, in as many launches as a network has products and activations.
fn closed_forms(config: Config) -> Record {
    let Config { n, d, m } = config;
    let mut record = Record::new(config, &Quantity::FP32);
    record.push(Phase::Setup, "fake_fill_kernel", [d, 1, 1], [256, 1, 1], &[0, 0, 0]);
    // Forward n products and activations; backward 2n - 1 of each: all but the first layer pass a
    // gradient on.
    for (phase, products) in [(Phase::Forward, n), (Phase::Backward, 2 * n - 1)] {
        for _ in 0..products {
            let grid = [d.div_ceil(64), m.div_ceil(64), 1];
            record.push(phase, "fake_sgemm_nn", grid, [128, 1, 1], &[0, 0, d * d * m]);
            let grid = [(d * m).div_ceil(256), 1, 1];
            record.push(phase, "fake_sigmoid_elementwise_kernel", grid, [256, 1, 1], &[d * m, 0, 0]);
        }
    }
    record
}
