//! `flopgap example`: files, and commands about them.

use std::fs;

use flopgap_testing::Ended;

use crate::{command, flopgap};

#[test]
fn every_command_that_is_printed_answers() {
    let place = tempfile::tempdir().unwrap();
    let cache = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let mut command = command(words);
        Ended::of(command.current_dir(place.path()).env("XDG_CACHE_HOME", cache.path()))
    };
    let written = run(&["example", "-o", "a b"]);
    written.expect(0, &["flopgap: ", " kB) in a b"]).prints(&["flopgap 'a b'/eager.json.gz\n"]);
    let commands: Vec<&str> =
        written.stdout.lines().filter_map(|line| line.strip_prefix("flopgap ")).collect();
    let about = written.stdout.lines().filter(|line| line.starts_with("# ")).count();
    assert_eq!((commands.len(), about), (written.stdout.lines().count() / 2, commands.len()));
    assert!(commands.len() >= 7, "{commands:?}");
    for line in commands {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        // The only word with a space in it is the directory.
        let words = words.join(" ").replace("'a b'", "a\u{a0}b");
        let words: Vec<String> = words.split(' ').map(|word| word.replace('\u{a0}', " ")).collect();
        let answer = run(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(answer.code, 0, "{line}: {}", answer.stderr);
        let page = place.path().join("a b/step.html");
        assert!(answer.stdout.lines().count() > 3 || (line.contains(".html") && page.is_file()), "{line}");
    }
}

#[test]
fn other_files_of_these_names_stay() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().to_str().unwrap();
    let file = place.path().join("rank1.json.zst");
    fs::write(&file, "mine").unwrap();
    let refused = flopgap(&["example", "-o", directory]);
    refused.expect(1, &["rank1.json.zst: exists and is not the example", "hint: write to another directory"]);
    assert_eq!((fs::read(&file).unwrap(), fs::read_dir(directory).unwrap().count()), (b"mine".to_vec(), 1));
    fs::remove_file(&file).unwrap();
    let first = flopgap(&["example", "-o", directory]);
    let modified = || fs::metadata(&file).unwrap().modified().unwrap();
    let date = modified();
    // A second time nothing is written.
    let second = flopgap(&["example", "-o", directory]);
    assert_eq!((first.code, &first.stdout, date), (second.code, &second.stdout, modified()));
}
