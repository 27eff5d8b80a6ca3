//! `model-calibrate`: measures networks on this machine, predicts any network with an interval, and
//! reports the errors.

use std::process::ExitCode;

fn main() -> ExitCode {
    model_calibrate::main()
}
