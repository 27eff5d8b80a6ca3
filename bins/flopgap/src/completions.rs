//! `flopgap completions SHELL`.

use clap_complete::Shell;
use flopgap_cli::Failure;

use crate::PROGRAM;
use crate::programs::ALL;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    flopgap_cli::print(&script(arguments.shell)?)
}

/// The scripts of all programs as one.
fn script(shell: Shell) -> Result<String, Failure> {
    let programs = ALL.iter().filter_map(|program| Some((program.name, program.command()?)));
    let mut script = String::new();
    for (name, mut command) in std::iter::once((PROGRAM, crate::command())).chain(programs) {
        let mut bytes = Vec::new();
        clap_complete::generate(shell, &mut command, name, &mut bytes);
        script += &String::from_utf8(bytes).map_err(|error| Failure::from_error(&error))?;
        script.push('\n');
    }
    Ok(if shell == Shell::PowerShell { imports_first(&script) } else { script })
}

/// `PowerShell` takes `using` only before everything else.
fn imports_first(script: &str) -> String {
    let (mut imports, mut rest) = (Vec::new(), String::new());
    for line in script.lines() {
        if !line.starts_with("using ") {
            rest += line;
            rest.push('\n');
        } else if !imports.contains(&line) {
            imports.push(line);
        }
    }
    imports.join("\n") + "\n" + &rest
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_program_and_command_is_completed_in_every_shell() {
        for &shell in Shell::value_variants() {
            let script = script(shell).unwrap();
            for program in ALL {
                let names = program.command().map(|command| {
                    let inner: Vec<String> =
                        command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
                    (program.name, inner)
                });
                assert!(script.contains(program.subcommand), "{shell}: {}", program.subcommand);
                let Some((name, inner)) = names else { continue };
                assert!(script.contains(name), "{shell}: {name}");
                for inner in inner {
                    assert!(script.contains(&inner), "{shell}: {name} {inner}");
                }
            }
        }
    }

    #[test]
    fn imports_of_powershell_come_first_and_once() {
        assert_eq!(imports_first("using a\nx\nusing b\nusing a\ny\n"), "using a\nusing b\nx\ny\n");
    }
}
