//! The extents of grids and blocks.

use std::fmt;

/// How many blocks a grid has, or threads a block, in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Dim3 {
    /// In x.
    pub x: u32,
    /// In y.
    pub y: u32,
    /// In z.
    pub z: u32,
}

impl Dim3 {
    /// The product of the three.
    ///
    /// ```
    /// use flopgap_trace::Dim3;
    ///
    /// assert_eq!(Dim3::from([128, 2, 1]).count(), 256);
    /// ```
    pub fn count(self) -> u128 {
        u128::from(self.x) * u128::from(self.y) * u128::from(self.z)
    }

    /// Extents that a file gives as other numbers; `None` when one is negative or above 2³² - 1.
    ///
    /// ```
    /// use flopgap_trace::Dim3;
    ///
    /// assert_eq!(Dim3::checked([128_i64, 2, 1]), Some(Dim3::from([128, 2, 1])));
    /// assert_eq!(Dim3::checked([-1_i64, 1, 1]), None);
    /// ```
    #[inline]
    pub fn checked<N: TryInto<u32>>([x, y, z]: [N; 3]) -> Option<Dim3> {
        Some(Dim3 { x: x.try_into().ok()?, y: y.try_into().ok()?, z: z.try_into().ok()? })
    }
}

impl From<[u32; 3]> for Dim3 {
    fn from([x, y, z]: [u32; 3]) -> Dim3 {
        Dim3 { x, y, z }
    }
}

impl From<Dim3> for [u32; 3] {
    fn from(Dim3 { x, y, z }: Dim3) -> [u32; 3] {
        [x, y, z]
    }
}

/// As `128x2x1`.
impl fmt::Display for Dim3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.x, self.y, self.z)
    }
}
