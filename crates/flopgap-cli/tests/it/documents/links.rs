//! Links between documents lead somewhere, on the site as well.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{READ, documents, root};

/// The targets of the links of a page, outside its blocks of code.
fn targets(text: &str) -> Vec<&str> {
    let prose = text.split("\n```").step_by(2);
    let links = prose.flat_map(|prose| prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()));
    links.filter(|target| !target.contains("://") && !target.contains(char::is_whitespace)).collect()
}

/// The anchors of a page's headings, as GitHub and mdBook write them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.split("\n```").step_by(2).flat_map(str::lines).filter_map(|line| {
        let title = line.trim_start_matches('#').strip_prefix(' ')?;
        line.starts_with('#').then_some(title)
    });
    let anchor = |title: &str| -> String {
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
    };
    headings.map(anchor).collect()
}

/// A path from the root of the repository, without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// The documents, by their paths from the root.
fn pages() -> BTreeMap<PathBuf, String> {
    let root = root();
    let mut paths = Vec::new();
    for read in READ.iter().chain(&["CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]) {
        documents(&root.join(read), &mut paths);
    }
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a document");
        (path.strip_prefix(&root).expect("below the root").to_owned(), text)
    };
    // A document that a package links to is followed where it lies.
    paths.into_iter().filter(|path| !path.is_symlink()).map(read).collect()
}

/// Where a link of a page leads, and its anchor. A directory stands for its README.
fn followed(page: &Path, target: &str) -> (PathBuf, Option<String>) {
    let (file, anchor) =
        target.split_once('#').map_or((target, None), |(file, it)| (file, Some(it.to_owned())));
    if file.is_empty() {
        return (page.to_owned(), anchor);
    }
    let to = plain(&page.parent().expect("a file").join(file));
    let readme = to.join("README.md");
    (if root().join(&readme).exists() { readme } else { to }, anchor)
}

#[test]
fn links_lead_to_files_and_headings() {
    let pages = pages();
    let (mut wrong, mut followed_links) = (String::new(), 0);
    for (page, text) in &pages {
        for target in targets(text) {
            let (to, anchor) = followed(page, target);
            let there = root().join(&to).exists();
            let named = |anchor: &String| pages.get(&to).is_some_and(|text| anchors(text).contains(anchor));
            if !there || !anchor.as_ref().is_none_or(named) {
                writeln!(wrong, "{}: {target}", page.display()).expect("a string grows");
            }
            followed_links += 1;
        }
    }
    assert!(wrong.is_empty(), "these links lead nowhere:\n{wrong}");
    assert!(followed_links > 200, "only {followed_links} links were found");
}

/// mdBook leaves out what its summary does not name, and a link to it would be dead.
#[test]
fn the_site_has_every_page_that_its_pages_link_to() {
    let pages = pages();
    let summary = Path::new("docs/SUMMARY.md");
    let named: BTreeSet<PathBuf> =
        targets(&pages[summary]).iter().map(|target| followed(summary, target).0).collect();
    for page in &named {
        for target in targets(&pages[page]) {
            let (to, _) = followed(page, target);
            let is_page = to.extension().is_some_and(|extension| extension == "md");
            let copied = ["png", "svg"].iter().any(|end| to.extension().is_some_and(|it| it == *end))
                || to.starts_with("LICENSE-MIT")
                || to.starts_with("LICENSE-APACHE");
            let found = if is_page { named.contains(&to) } else { copied };
            assert!(found, "{}: {target} is not on the site: docs/SUMMARY.md", page.display());
        }
    }
    for page in pages.keys().filter(|page| page.starts_with("docs") && *page != summary) {
        assert!(named.contains(page), "docs/SUMMARY.md does not name {}", page.display());
    }
}

#[test]
fn what_links_and_anchors_are() {
    let text = "[a](b.md#c-d) ![p](q.png) [web](https://x.y/z)\n\n## C `d`: e-f_g\n\n```text\n# no [x](y)\n```\n\n[z](#c)";
    assert_eq!(targets(text), ["b.md#c-d", "q.png", "#c"]);
    assert_eq!(anchors(text), BTreeSet::from(["c-d-e-f_g".to_owned()]));
    assert_eq!(plain(Path::new("docs/../bins/./x")), Path::new("bins/x"));
}
