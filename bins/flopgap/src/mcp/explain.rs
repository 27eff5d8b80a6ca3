//! The words of answers: causes of time, advice, and the terms of the glossary.

use flopgap_answers::sentences::what_to_change;
use flopgap_cli::{Exit, Failure};
use flopgap_gap::{Cause, Kind};

const GLOSSARY: &str = include_str!("../../data/glossary.md");

/// How many entries are answered where none has the name.
const MOST: usize = 8;

/// A word with what it means.
struct Entry {
    names: Vec<String>,
    text: String,
}

/// What a term means: its own entry, or those that mention it.
pub(super) fn explain(term: &str) -> Result<String, Failure> {
    let wanted = key(term);
    let entries = entries();
    let texts = |has: &dyn Fn(&&Entry) -> bool| {
        entries.iter().filter(has).map(|entry| entry.text.as_str()).collect::<Vec<_>>()
    };
    let exact = texts(&|entry| entry.names.iter().any(|name| key(name) == wanted));
    if !exact.is_empty() {
        return Ok(exact.join("\n"));
    }
    let related = texts(&|entry| !wanted.is_empty() && key(&entry.text).contains(&wanted));
    if related.is_empty() {
        let names: Vec<&str> = entries.iter().flat_map(|entry| &entry.names).map(String::as_str).collect();
        let failure = Failure::new(format!("unknown term `{term}`")).exit(Exit::Absent);
        return Err(failure.hint(format!("known terms: {}", names.join(", "))));
    }
    let mut lines = vec![format!("`{term}` has no entry of its own; entries that mention it:")];
    lines.extend(related.iter().take(MOST).map(ToString::to_string));
    if related.len() > MOST {
        lines.push(format!("and {} more", related.len() - MOST));
    }
    Ok(lines.join("\n"))
}

/// As terms are compared: `Blocking_Call` is `blocking-call`.
fn key(term: &str) -> String {
    term.trim().to_lowercase().replace(['_', ' '], "-")
}

fn entries() -> Vec<Entry> {
    let causes = Cause::ALL.iter().map(|cause| {
        let (name, words, part) = (cause.as_str(), cause.in_words(), cause.part().as_str());
        let text = format!("cause `{name}` of {part} time, shown as \"{words}\": {}", cause.about());
        Entry { names: vec![name.to_owned(), words.to_owned()], text }
    });
    let advice = Kind::ALL.iter().map(|kind| {
        let text = format!("advice `{}`: {} {}.", kind.as_str(), kind.about(), what_to_change(*kind));
        Entry { names: vec![kind.as_str().to_owned()], text }
    });
    causes.chain(advice).chain(terms(GLOSSARY)).collect()
}

/// The terms of a glossary: what is bold in its lists.
fn terms(glossary: &str) -> impl Iterator<Item = Entry> {
    glossary.split("\n- ").skip(1).filter(|item| item.starts_with("**")).map(|item| {
        let item = item.split("\n\n").next().unwrap_or_default();
        let text = item.split_whitespace().collect::<Vec<_>>().join(" ");
        let names = text.split("**").skip(1).step_by(2).flat_map(|bold| bold.split(", "));
        Entry {
            names: names.map(|name| name.trim_end_matches(':').to_owned()).collect(),
            text: text.replace("**", ""),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_advice_and_terms_are_explained() {
        let blocking = explain("blocking-call").unwrap();
        assert!(
            blocking.starts_with("cause `blocking-call` of idle time, shown as \"after a blocking call\": ")
        );
        assert!(
            blocking.contains("\nadvice `blocking-call`: Do not wait for the GPU within the loop. "),
            "{blocking}"
        );
        assert_eq!(explain("After a blocking call").unwrap(), blocking.lines().next().unwrap());
        assert!(explain("FLOPs").unwrap().starts_with("FLOP, FLOPs: one floating-point operation"));
        assert!(explain("launch").unwrap().starts_with("kernel and launch: "));
        assert!(explain("MAPE").unwrap().contains("mean absolute percentage error"));
        // Sentences over two lines of the source.
        assert!(explain("first_launch").unwrap().ends_with("such as the launch that loads it."));
    }

    #[test]
    fn other_words_find_what_mentions_them_or_all_terms() {
        let found = explain("dataloader").unwrap();
        assert!(
            found.starts_with("`dataloader` has no entry") && found.contains("input-pipeline"),
            "{found}"
        );
        let failure = explain("flux capacitor").unwrap_err().to_string();
        assert!(failure.starts_with("unknown term `flux capacitor`"), "{failure}");
        assert!(failure.contains("tensor-cores") && failure.contains("tape"), "{failure}");
        assert!(explain("").is_err());
    }
}
