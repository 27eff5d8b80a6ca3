//! Small files that unpack without end.

use std::io::{self, ErrorKind, Read};

use flopgap_files::Hint as _;
use flopgap_kineto::{Error, Trace};

/// What the decompressor says after the beginning of a trace.
struct TooLarge;

impl Read for TooLarge {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(ErrorKind::FileTooLarge.into())
    }
}

#[test]
fn the_message_says_what_to_do() {
    let begin = br#"{"traceEvents":[{"ph":"X","#;
    let Err(error) = Trace::read(begin.chain(TooLarge), "trace.json") else { panic!("it was read") };
    let is_kept = matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::FileTooLarge);
    assert!(is_kept, "{error:?}");
    assert_eq!(error.hint().as_deref(), Some(flopgap_files::unpack::HINT));
}
