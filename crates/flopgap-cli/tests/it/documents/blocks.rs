//! Code blocks of a document that show commands.

/// A command, and what the document says it prints.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) line: usize,
    pub(super) command: String,
    /// `None` where the document shows commands alone.
    pub(super) output: Option<String>,
}

/// The blocks of a document, each with its commands: all lines of a block of `sh`, and in one of
/// `console` those that begin with `$ `.
pub(super) fn shown(document: &str) -> Vec<Vec<Shown>> {
    let mut blocks = Vec::new();
    let mut lines = document.lines().enumerate();
    while let Some((start, opening)) = lines.next() {
        let indent = opening.len() - opening.trim_start().len();
        let Some(language) = opening.trim_start().strip_prefix("```") else { continue };
        let closing = "```";
        let content: Vec<&str> = lines
            .by_ref()
            .map(|(_, line)| line.get(indent..).unwrap_or_default())
            .take_while(|line| line.trim_end() != closing)
            .collect();
        match language.trim() {
            "sh" | "bash" => blocks.push(of_script(start + 2, &content)),
            "console" => blocks.push(of_session(start + 2, &content)),
            _ => {}
        }
    }
    blocks
}

fn of_script(first: usize, content: &[&str]) -> Vec<Shown> {
    let mut commands: Vec<Shown> = Vec::new();
    let mut open = false;
    for (number, line) in content.iter().enumerate() {
        if let Some(last) = commands.last_mut().filter(|_| open) {
            last.command = format!("{}\n{line}", last.command);
        } else if !line.trim().is_empty() && !line.starts_with('#') {
            commands.push(Shown { line: first + number, command: (*line).to_owned(), output: None });
        }
        open = continues(line);
    }
    commands
}

fn of_session(first: usize, content: &[&str]) -> Vec<Shown> {
    let mut commands: Vec<Shown> = Vec::new();
    let mut open = false;
    for (number, line) in content.iter().enumerate() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => {
                open = continues(command);
                commands.push(Shown { line: first + number, command: command.to_owned(), output: None });
            }
            (None, Some(last)) if open => {
                open = continues(line);
                last.command = format!("{}\n{line}", last.command);
            }
            (None, Some(last)) => {
                let output = last.output.get_or_insert_default();
                output.push_str(line);
                output.push('\n');
            }
            (None, None) => {}
        }
    }
    commands
}

fn continues(line: &str) -> bool {
    line.ends_with('\\')
}

/// Compares what a document shows with what was printed. A line `…` or `...` is any number
/// of lines, and `…` at the end of a line for the rest of it.
///
/// # Errors
/// The first line that was not printed, with what was.
pub(super) fn compare(shown: &str, printed: &str) -> Result<(), String> {
    let printed: Vec<&str> = printed.trim_end().lines().collect();
    let mut at = 0;
    let mut any = false;
    for line in shown.trim_end().lines() {
        if ["…", "..."].contains(&line.trim()) {
            any = true;
            continue;
        }
        let rest = printed.get(at..).unwrap_or_default();
        let found = rest.iter().position(|printed| is_shown_as(line, printed));
        at += match found {
            Some(found) if any || found == 0 => found + 1,
            _ => return Err(format!("shown:\n  {line}\nprinted:\n  {}", rest.join("\n  "))),
        };
        any = false;
    }
    if any || at == printed.len() {
        return Ok(());
    }
    Err(format!("printed after what is shown:\n  {}", printed[at..].join("\n  ")))
}

fn is_shown_as(shown: &str, printed: &str) -> bool {
    match shown.trim_end().strip_suffix('…') {
        Some(beginning) => printed.starts_with(beginning.trim_end()),
        None => shown.trim_end() == printed.trim_end(),
    }
}

#[test]
fn commands_and_their_output_are_found() {
    let document = "text\n```console\n$ a \\\n    --b\nx\n\ny\n$ c\n```\n- item\n\n  ```sh\n  d\n  # e\n  f  # g\n  ```\n```rust\n$ h\n```\n";
    let expected = [
        vec![(3, "a \\\n    --b", Some("x\n\ny\n")), (8, "c", None)],
        vec![(13, "d", None), (15, "f  # g", None)],
    ];
    let expected = expected.map(|block| {
        let shown = block.into_iter().map(|(line, command, output): (usize, &str, Option<&str>)| Shown {
            line,
            command: command.to_owned(),
            output: output.map(str::to_owned),
        });
        shown.collect::<Vec<_>>()
    });
    assert_eq!(shown(document), expected);
}

#[test]
fn only_what_is_cut_may_differ() {
    let printed = "one\ntwo, and more\nthree\nfour\n";
    for equal in ["one\ntwo, and more\nthree\nfour", "one\n…\nfour\n", "one\ntwo…\n...", "…\nthree\nfour"]
    {
        assert_eq!(compare(equal, printed), Ok(()), "{equal}");
    }
    for other in
        ["one\ntwo\nthree\nfour", "one\nthree\nfour", "one\n…\ntwo", "two…\nthree\nfour", "one", "…\nfive"]
    {
        assert!(compare(other, printed).is_err(), "{other}");
    }
}
