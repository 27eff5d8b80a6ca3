//! The widths at which charts show more.

/// Charts are laid out for at least this many pixels.
pub(super) const FIRST_WIDTH: u32 = 300;
/// The number of wider widths at which more is shown. Labels that need more than the last are left
/// out.
pub(super) const LEVELS: u32 = 16;

/// The width of a level in pixels: 300, 400, 600, 800, 1200, … 76,800.
pub(super) const fn width_of(level: u32) -> u32 {
    let base = if level.is_multiple_of(2) { FIRST_WIDTH } else { 400 };
    base << (level / 2)
}
