//! `flopgap man -o DIR`.

use std::path::PathBuf;

use flopgap_cli::Failure;

use crate::PROGRAM;
use crate::programs::ALL;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The directory to write to, such as ~/.local/share/man/man1
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let pages = pages(&crate::command().name(PROGRAM))?;
    let programs = ALL.iter().filter_map(crate::programs::Program::command);
    let pages = programs.map(|command| self::pages(&command)).try_fold(pages, |mut all, pages| {
        all.extend(pages?);
        Ok::<_, Failure>(all)
    })?;
    flopgap_files::create_folder(&arguments.output)?;
    for (name, text) in &pages {
        flopgap_files::write_atomic(&arguments.output.join(name), text)?;
    }
    flopgap_cli::note(PROGRAM, format_args!("{} man pages in {}", pages.len(), arguments.output.display()));
    Ok(())
}

/// The page of a command, and those of its commands: `flopgap-nsys-summary.1`.
fn pages(command: &clap::Command) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let mut command = command.clone().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    let mut left = vec![command];
    while let Some(command) = left.pop() {
        left.extend(command.get_subcommands().filter(|inner| !inner.is_hide_set()).cloned());
        let page = clap_mangen::Man::new(command);
        let mut text = Vec::new();
        page.render(&mut text).map_err(|error| Failure::from_error(&error))?;
        pages.push((page.get_filename(), text));
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_of_its_own() {
        let pages = pages(&crate::command()).unwrap();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in
            ["flopgap.1", "flopgap-nsys.1", "flopgap-nsys-summary.1", "flopgap-table.1", "flopgap-man.1"]
        {
            assert_eq!(names.iter().filter(|other| **other == name).count(), 1, "{name} in {names:?}");
        }
        for (name, text) in &pages {
            let text = String::from_utf8_lossy(text);
            assert!(text.contains(".TH ") && text.contains(".SH SYNOPSIS"), "{name}: {text}");
        }
        assert!(!names.contains(&"flopgap-profile-count-on.1"), "hidden commands have no page");
    }
}
