//! The placement of memory on NUMA nodes.

use std::fmt;
use std::io;
use std::ops::Range;
use std::str::FromStr;

use sys::next_touch;
use sys::numa::{self, PagePolicy};
use sys::pages::page_bytes;

/// Where memory must be placed. Written as `first-touch`, `node:2`, `interleave`, `interleave:0,2`,
/// `here`, `next-touch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placing {
    /// Each page on the node of the thread that touches it first.
    FirstTouch,
    /// All pages on one node, by the system's number.
    Node(u32),
    /// Page by page on these nodes in turn; on all nodes if none is named.
    Interleaved(Vec<u32>),
    /// Pages that were touched already, on the node of the calling thread.
    Here,
    /// Each page on the node of the thread that touches it next; whole pages of private memory
    /// only.
    NextTouch,
}

/// The reason why memory cannot be placed as requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacingError {
    /// The text is not understood.
    NotUnderstood(String),
    /// This process may have no memory on a requested node.
    NoSuchNode {
        /// The requested node.
        node: u32,
        /// The allowed nodes.
        nodes: Vec<u32>,
    },
    /// The system refuses.
    Refused(String),
}

impl fmt::Display for PlacingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUnderstood(text) => write!(
                f,
                "\"{text}\" is not a place for memory; places are first-touch, next-touch, here, \
                 node:N, interleave, and interleave:N,N"
            ),
            Self::NoSuchNode { node, nodes } if nodes.len() == 1 => write!(
                f,
                "memory on NUMA node {node} is asked for, but there is only one node, {}",
                nodes[0]
            ),
            Self::NoSuchNode { node, nodes } => {
                let names: Vec<String> = nodes.iter().map(u32::to_string).collect();
                let names = names.join(", ");
                write!(f, "memory on NUMA node {node} is asked for, but the nodes are {names}")
            }
            Self::Refused(why) => write!(f, "the kernel refuses to place the memory: {why}"),
        }
    }
}

impl std::error::Error for PlacingError {}

impl From<io::Error> for PlacingError {
    fn from(cause: io::Error) -> Self {
        Self::Refused(cause.to_string())
    }
}

impl FromStr for Placing {
    type Err = PlacingError;

    fn from_str(text: &str) -> Result<Self, PlacingError> {
        let wrong = || PlacingError::NotUnderstood(text.to_owned());
        let number = |word: &str| word.trim().parse::<u32>().map_err(|_| wrong());
        Ok(match text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest))) {
            ("first-touch", None) => Self::FirstTouch,
            ("here", None) => Self::Here,
            ("next-touch", None) => Self::NextTouch,
            ("node", Some(node)) => Self::Node(number(node)?),
            ("interleave", None) => Self::Interleaved(Vec::new()),
            ("interleave", Some(nodes)) => {
                Self::Interleaved(nodes.split(',').map(number).collect::<Result<_, _>>()?)
            }
            _ => return Err(wrong()),
        })
    }
}

/// Returns the addresses of memory.
pub fn addresses_of(memory: &[u8]) -> Range<usize> {
    let start = memory.as_ptr() as usize;
    start..start + memory.len()
}

/// Places on a node the pages that lie entirely at `addresses`, if the system can do so. Pages that
/// contain other data, too, stay where they are.
pub fn keep_on_node(addresses: Range<usize>, node: u32) {
    let pages =
        addresses.start.next_multiple_of(page_bytes())..addresses.end / page_bytes() * page_bytes();
    if !pages.is_empty() {
        // Memory that lies elsewhere is only slower.
        let _ = numa::place(pages, PagePolicy::On(&[node]));
    }
}

impl Placing {
    /// Checks that this process may have memory there.
    ///
    /// # Errors
    /// There is no such node.
    pub fn check(&self) -> Result<(), PlacingError> {
        let wanted = match self {
            Self::FirstTouch | Self::Here | Self::NextTouch => return Ok(()),
            Self::Node(node) => std::slice::from_ref(node),
            Self::Interleaved(wanted) => wanted,
        };
        let nodes = numa::nodes()?;
        match wanted.iter().find(|node| !nodes.contains(node)) {
            Some(node) => Err(PlacingError::NoSuchNode { node: *node, nodes }),
            None => Ok(()),
        }
    }

    /// Places the pages that overlap with these addresses: touched pages move, others will be
    /// placed when they are touched.
    ///
    /// # Errors
    /// There is no such node, or the system refuses.
    pub fn apply(&self, addresses: Range<usize>) -> Result<(), PlacingError> {
        self.check()?;
        if addresses.is_empty() {
            return Ok(());
        }
        // Pages that still wait for their next touch are made accessible again.
        next_touch::finish(addresses.clone());
        match self {
            Self::FirstTouch => numa::place(addresses, PagePolicy::FirstTouch)?,
            Self::NextTouch => {
                numa::place(addresses.clone(), PagePolicy::FirstTouch)?;
                // With one node every thread is near.
                if next_touch::is_of_use() {
                    next_touch::begin(addresses)?;
                }
            }
            Self::Node(node) => {
                numa::place(addresses.clone(), PagePolicy::On(&[*node]))?;
                // The call above skips pages that the system uses at the moment; this one tries
                // to move them several times.
                numa::migrate(addresses, &[*node])?;
            }
            Self::Interleaved(wanted) => {
                let all = if wanted.is_empty() { numa::nodes()? } else { Vec::new() };
                let nodes = if wanted.is_empty() { &all } else { wanted };
                numa::place(addresses.clone(), PagePolicy::Interleaved(nodes))?;
                // The call above moves no page that is already on any of the nodes; this one
                // distributes these pages, too.
                numa::migrate(addresses, nodes)?;
            }
            Self::Here => {
                // The system skips unmapped pages silently.
                numa::check_mapped(addresses.clone())?;
                numa::migrate(addresses, &[numa::current_node()?])?;
            }
        }
        Ok(())
    }
}

/// Returns the NUMA node of each page that overlaps with these addresses; none for a page that was
/// never touched.
///
/// # Errors
/// The system does not provide the nodes.
pub fn nodes_of(addresses: Range<usize>) -> Result<Vec<Option<u32>>, PlacingError> {
    Ok(numa::locate(addresses)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        assert_eq!("node:3".parse(), Ok(Placing::Node(3)));
        assert_eq!("interleave".parse(), Ok(Placing::Interleaved(vec![])));
        assert_eq!("interleave:0,2".parse(), Ok(Placing::Interleaved(vec![0, 2])));
        assert_eq!("first-touch".parse(), Ok(Placing::FirstTouch));
        for wrong in ["", "node", "node:x", "interleave:", "here:1", "moon"] {
            let error = wrong.parse::<Placing>().unwrap_err();
            assert!(error.to_string().contains("places are"), "{error}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the system")]
    fn what_cannot_be_is_reported() {
        let Ok(nodes) = numa::nodes() else { return };
        let memory = vec![0_u8; 1 << 16];
        let start = memory.as_ptr() as usize;
        let range = start..start + memory.len();
        let error = Placing::Node(1000).apply(range.clone()).unwrap_err();
        assert_eq!(error, PlacingError::NoSuchNode { node: 1000, nodes: nodes.clone() });
        assert!(error.to_string().contains("NUMA node 1000 is asked for"));
        Placing::Interleaved(vec![]).apply(range.clone()).unwrap();
        Placing::Here.apply(range.clone()).unwrap();
        Placing::FirstTouch.apply(range.clone()).unwrap();
        assert!(nodes_of(range).unwrap().iter().any(Option::is_some));
        Placing::Node(nodes[0]).apply(5..5).unwrap();
    }
}
