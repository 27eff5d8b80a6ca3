//! The place in a mangled name: letters, numbers and identifiers.

/// A reader of a mangled name.
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.look(0)
    }

    /// The byte this many places ahead.
    pub(super) fn look(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    /// The next byte, which is consumed.
    pub(super) fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    /// The two letters that begin an operator or a type, without consuming them.
    pub(super) fn pair(&self) -> Option<[u8; 2]> {
        Some([self.look(0)?, self.look(1)?])
    }

    /// Consumes the letters if they come next.
    pub(super) fn eat(&mut self, letters: &str) -> bool {
        let found = self.text.as_bytes()[self.at..].starts_with(letters.as_bytes());
        if found {
            self.at += letters.len();
        }
        found
    }

    pub(super) fn expect(&mut self, letters: &str) -> Option<()> {
        self.eat(letters).then_some(())
    }

    pub(super) fn is_end(&self) -> bool {
        self.at == self.text.len()
    }

    pub(super) fn is_digit(&self) -> bool {
        self.peek().is_some_and(|byte| byte.is_ascii_digit())
    }

    /// The bytes for which a condition holds.
    pub(super) fn take_while(&mut self, holds: impl Fn(u8) -> bool) -> Option<&'a str> {
        let rest = &self.text.as_bytes()[self.at..];
        let count = rest.iter().take_while(|&&byte| holds(byte)).count();
        self.take(count)
    }

    pub(super) fn digits(&mut self) -> Option<&'a str> {
        self.take_while(|byte| byte.is_ascii_digit()).filter(|digits| !digits.is_empty())
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        self.digits()?.parse().ok()
    }

    /// An identifier behind its length: `5saxpy`.
    pub(super) fn identifier(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.number()?).ok().filter(|&length| length > 0)?;
        self.take(length)
    }

    /// A number from 1 that stands before an underscore and is left out for the first: `_`, `0_`,
    /// `1_`.
    pub(super) fn ordinal(&mut self) -> Option<u64> {
        let number = if self.is_digit() { self.number()?.checked_add(2)? } else { 1 };
        self.expect("_").map(|()| number)
    }

    /// The index of a substitution, in base 36, with the underscore behind it.
    pub(super) fn index(&mut self) -> Option<usize> {
        let letters = self.take_while(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())?;
        self.expect("_")?;
        if letters.is_empty() {
            return Some(0);
        }
        usize::from_str_radix(letters, 36).ok()?.checked_add(1)
    }

    fn take(&mut self, length: usize) -> Option<&'a str> {
        let end = self.at.checked_add(length)?;
        let taken = self.text.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }
}
