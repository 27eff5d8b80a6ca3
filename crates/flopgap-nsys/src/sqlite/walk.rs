//! The leaves of a b-tree, in order.

use super::database::Database;
use super::error::{Damage, Fault};
use super::page::{Header, INTERIOR, LEAF, header_of};
use super::visited::Visited;

/// How many bytes are read at once.
const BLOCK: usize = 256 << 10;
/// How many pages of other tables may lie between two that are read together.
const GAP: u32 = 4;
/// `SQLite`'s own limit: a file of 2³² pages is not that deep.
pub(crate) const DEEPEST: usize = 20;

/// The pages below an interior page.
struct Children {
    number: u32,
    pages: Vec<u32>,
    next: usize,
}

/// A walk from the first leaf to the last.
pub(crate) struct Walk {
    database: Database,
    path: Vec<Children>,
    block: Vec<u8>,
    /// The number of the first page in the block, and how many there are.
    held: (u32, u32),
    /// Where in the block the leaf lies, and its number.
    leaf: (usize, u32),
}

impl Walk {
    pub(crate) fn new(database: Database, root: u32) -> Walk {
        // The root is the only child of a page that is not there; damage of its number is reported
        // for page 1, which holds it.
        let path = vec![Children { number: 1, pages: vec![root], next: 0 }];
        Walk { database, path, block: Vec::new(), held: (0, 0), leaf: (0, 0) }
    }

    /// Goes to the next leaf and gives its number; `None` after the last.
    pub(crate) fn next_leaf(&mut self, visited: &mut Visited) -> Result<Option<u32>, Fault> {
        loop {
            let Some(children) = self.path.last_mut() else { return Ok(None) };
            let Some(&page) = children.pages.get(children.next) else {
                self.path.pop();
                continue;
            };
            visited.mark(page, children.number)?;
            let at = self.fetch(page)?;
            if let Some(children) = self.path.last_mut() {
                children.next += 1;
            }
            let bytes = &self.block[at..at + self.database.usable];
            match bytes[Database::header_at(page)] {
                LEAF => {
                    self.leaf = (at, page);
                    return Ok(Some(page));
                }
                INTERIOR if self.path.len() > DEEPEST => return Damage::TooDeep.on(page),
                INTERIOR => {
                    let pages = children_of(&self.database, page, bytes)?;
                    self.path.push(Children { number: page, pages, next: 0 });
                }
                _ => return Damage::NotATable.on(page),
            }
        }
    }

    /// The bytes of the leaf.
    #[inline]
    pub(crate) fn leaf(&self) -> &[u8] {
        &self.block[self.leaf.0..self.leaf.0 + self.database.usable]
    }

    /// The header of the leaf.
    pub(crate) fn header(&self) -> Result<Header, Fault> {
        header_of(self.leaf(), self.leaf.1)
    }

    /// Where in the block the next child lies, which is read, together with those that follow it
    /// closely, when it is not there.
    fn fetch(&mut self, page: u32) -> Result<usize, Fault> {
        let size = self.database.page_size;
        let (first, count) = self.held;
        if page >= first && page - first < count {
            return Ok((page - first) as usize * size);
        }
        let most = (BLOCK / size).max(1);
        let following = self.path.last().map_or(&[][..], |children| &children.pages[children.next + 1..]);
        let mut last = page;
        for &next in following {
            if next <= last
                || next - last > GAP
                || (next - page) as usize >= most
                || next > self.database.count
            {
                break;
            }
            last = next;
        }
        let count = last - page + 1;
        self.held = (0, 0);
        self.block.resize(count as usize * size, 0);
        self.database.read(page, &mut self.block)?;
        self.held = (page, count);
        Ok(0)
    }
}

/// The pages that an interior page names, all of them in the file.
fn children_of(database: &Database, number: u32, bytes: &[u8]) -> Result<Vec<u32>, Fault> {
    let header = header_of(bytes, number)?;
    let mut children = Vec::with_capacity(header.cells + 1);
    for at in 0..header.cells {
        let (page, _) = header.child(bytes, at, number)?;
        children.push(page);
    }
    children.push(header.right);
    for &child in &children {
        database.check(child, number)?;
    }
    Ok(children)
}
