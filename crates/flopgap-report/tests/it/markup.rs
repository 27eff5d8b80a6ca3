//! A check that text is well-formed XML, strict enough for what is drawn here.

/// Panics unless tags nest, attributes are quoted, and `&` starts an entity. Returns the number of
/// elements.
pub(crate) fn check_well_formed(xml: &str) -> usize {
    let mut open: Vec<&str> = Vec::new();
    let mut elements = 0;
    let mut rest = xml;
    while let Some(start) = rest.find('<') {
        check_text(&rest[..start]);
        let end = start + rest[start..].find('>').expect("a tag is closed");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "the closing tag matches");
            continue;
        }
        elements += 1;
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let attributes = attributes.trim_end_matches('/').trim();
        if !attributes.is_empty() {
            check_attributes(attributes);
        }
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    check_text(rest);
    assert!(open.is_empty(), "unclosed: {open:?}");
    elements
}

fn check_attributes(text: &str) {
    let parts: Vec<&str> = text.split('"').collect();
    assert_eq!(parts.len() % 2, 1, "quotes are paired in {text}");
    for pair in parts.chunks_exact(2) {
        let name = pair[0].trim();
        let name = name.strip_suffix('=').unwrap_or_else(|| panic!("no `=` after {name} in {text}"));
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'), "attribute {name} in {text}");
        check_text(pair[1]);
    }
}

fn check_text(text: &str) {
    for (index, _) in text.match_indices('&') {
        let entity = text[index..].split(';').next().unwrap_or_default();
        assert!(["&lt", "&gt", "&amp", "&quot", "&apos"].contains(&entity), "{entity}");
    }
    let forbidden = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t' | '\r')) || matches!(c, '\u{FFFE}' | '\u{FFFF}')
    };
    assert!(!text.contains(forbidden), "{text:?}");
}
