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
    let mut script = String::new();
    for program in ALL {
        if let Some(command) = program.command() {
            script += &of_command(shell, command, program.name)?;
        }
    }
    if shell == Shell::Zsh {
        let own = of_command(shell, without_files(&crate::command()), PROGRAM)?;
        return Ok(format!("{}\n{script}{}", compdef(), with_files(&own)));
    }
    let script = of_command(shell, crate::command(), PROGRAM)? + &script;
    Ok(if shell == Shell::PowerShell { imports_first(&script) } else { script })
}

fn of_command(shell: Shell, mut command: clap::Command, name: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut bytes);
    let script = String::from_utf8(bytes).map_err(|error| Failure::from_error(&error))?;
    Ok(script + "\n")
}

/// The first line of a script in zsh's `fpath`: what it completes.
fn compdef() -> String {
    let names: Vec<&str> = ALL.iter().map(|program| program.name).collect();
    format!("#compdef {PROGRAM} {}\n", names.join(" "))
}

/// zsh takes the first word for a file where there may be one, and completes no program then.
fn without_files(command: &clap::Command) -> clap::Command {
    let options = command.get_arguments().filter(|argument| !argument.is_positional());
    clap::Command::new(PROGRAM)
        .version(env!("CARGO_PKG_VERSION"))
        .args(options.cloned())
        .subcommands(command.get_subcommands().cloned())
}

/// Offers files beside the programs. What is run when zsh loads the script is the function of the
/// program that is completed, as the others are also in it.
fn with_files(script: &str) -> String {
    let command = crate::command();
    let programs: Vec<&str> =
        command.get_subcommands().map(clap::Command::get_name).chain(["help"]).collect();
    let first = "case $line[1] in";
    let files = format!("[[ $line[1] == ({}) ]] || _files\n        {first}", programs.join("|"));
    let names = format!("_describe -t commands '{PROGRAM} commands' commands \"$@\"");
    let last = format!("    _{PROGRAM} \"$@\"");
    script.replacen(first, &files, 1).replacen(&names, &format!("{names}\n    _files"), 1).replacen(
        &last,
        &format!("    \"_${{service:-{PROGRAM}}}\" \"$@\""),
        1,
    )
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
                assert!(script.contains(program.subcommand()), "{shell}: {}", program.subcommand());
                let Some((name, inner)) = names else { continue };
                assert!(script.contains(name), "{shell}: {name}");
                for inner in inner {
                    assert!(script.contains(&inner), "{shell}: {name} {inner}");
                }
            }
        }
    }

    #[test]
    fn zsh_completes_files_beside_programs() {
        let script = script(Shell::Zsh).unwrap();
        assert!(script.starts_with("#compdef flopgap nsys-analyze "), "{}", &script[..200]);
        for part in ["] || _files", "commands \"$@\"\n    _files\n", "    \"_${service:-flopgap}\" \"$@\"\n"]
        {
            assert_eq!(script.matches(part).count(), 1, "{part}");
        }
    }

    /// fish expands these in what it shows beside a value.
    #[test]
    fn values_are_described_without_quotation_marks() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments() {
                for value in argument.get_possible_values() {
                    let help = value.get_help().map(ToString::to_string).unwrap_or_default();
                    let name = value.get_name();
                    assert!(!help.contains(['"', '$']), "{} {name}: {help}", command.get_name());
                }
            }
            command.get_subcommands().for_each(check);
        }
        check(&crate::command());
    }

    #[test]
    fn imports_of_powershell_come_first_and_once() {
        assert_eq!(imports_first("using a\nx\nusing b\nusing a\ny\n"), "using a\nusing b\nx\ny\n");
    }
}
