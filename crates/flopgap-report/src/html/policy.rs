//! The content security policy of pages.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

/// What a page may do: run exactly these scripts, and load nothing. The scripts stand between their
/// tags as they are here.
pub(super) fn policy(scripts: &[&str]) -> String {
    let hash = |script: &&str| format!(" 'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(script)));
    let scripts: String = scripts.iter().map(hash).collect();
    // The code that draws surfaces writes style sheets of its own and makes pictures of itself.
    format!(
        "default-src 'none'; script-src{scripts}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first value is the example in the specification of Content Security Policy, level 3.
    #[test]
    fn scripts_are_named_by_their_hash() {
        let policy = policy(&["alert('Hello, world.');", ""]);
        assert!(
            policy.contains("script-src 'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng=' 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=';"),
            "{policy}"
        );
        assert!(!policy.split(';').nth(1).unwrap().contains("unsafe"));
    }
}
