//! The class of each kernel name on standard input, one a line:
//! `cut -d, -f1 kernels.csv | cargo run --example classes`.

#![allow(clippy::print_stdout, reason = "an example prints its result")]

use std::io::{self, BufRead as _};

use flopgap_kernels::Classifier;

fn main() -> io::Result<()> {
    let classifier = Classifier::new();
    for name in io::stdin().lock().lines() {
        let info = classifier.get(&name?);
        let precision = info.precision.map_or(String::from("-"), |precision| precision.to_string());
        println!("{:<14} {precision:<5} {}", info.class.to_string(), info.short);
    }
    Ok(())
}
