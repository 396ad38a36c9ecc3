//! The cards of the processes of one machine, in the memory file that their launcher has created
//! for its questions.
//!
//! A process that connects a peer of its machine reads the card of the peer here, with a few system
//! calls. Without this table it would ask the launcher, once for each peer: where ranks outnumber
//! cores, each answer waits until the launcher and the process have had their turns on the cores.
//!
//! Each process has a record: its rank, the number of the program that has posted the card, and the
//! card. Several programs may run one after the other as the same rank, each of which posts a card
//! of its own. As with values that the launcher keeps, a program that is the `n`th of its rank
//! reads only the cards of programs that are at least the `n`th of theirs.

use std::cmp::Ordering;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::inherited;

/// The offset in the file of the offset of the first record; 0 there: the file has no records.
const TABLE: u64 = 16;

/// The length of a record in bytes, with its head. The head has four words of 32 bits, of which the
/// last is unused: the rank, the number of the program, and the length of the card.
const RECORD_BYTES: u64 = 256;
const HEAD_BYTES: u64 = 16;

/// The number of the program while the card is being replaced, and before the first one.
const NO_PROGRAM: u32 = 0;

/// The longest card that fits into a record, in bytes.
const CARD_BYTES_MAX: usize = (RECORD_BYTES - HEAD_BYTES) as usize;

/// The table of cards, as a process uses it.
#[derive(Debug)]
pub(crate) struct CardTable {
    file: Arc<File>,
    /// The label of the file, which the program may have closed.
    label: &'static CStr,
    first: u64,
    count: u64,
    /// The rank of the first record.
    lowest: u32,
    /// The number of this program; none until it posts its card.
    own_program: Option<u32>,
}

/// The head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    rank: u32,
    program: u32,
    length: u32,
}

/// Returns the length of the records of so many processes.
pub(crate) fn table_bytes(processes: usize) -> u64 {
    RECORD_BYTES * processes as u64
}

/// Creates the records of these ranks in `file`, from the offset `first` on.
///
/// # Errors
/// The system's.
pub(crate) fn create(file: &File, first: u64, ranks: &[u32]) -> io::Result<()> {
    let mut records = vec![0; table_bytes(ranks.len()) as usize];
    for (record, rank) in records.chunks_exact_mut(RECORD_BYTES as usize).zip(ranks) {
        record[..4].copy_from_slice(&rank.to_le_bytes());
    }
    file.write_all_at(&records, first)?;
    file.write_all_at(&first.to_le_bytes(), TABLE)
}

impl CardTable {
    /// Finds the table in a file; none if the launcher that created the file made no table.
    pub(crate) fn find(file: Arc<File>, label: &'static CStr) -> Option<Self> {
        let mut word = [0; 8];
        file.read_exact_at(&mut word, TABLE).ok()?;
        let first = u64::from_le_bytes(word);
        let length = file.metadata().ok()?.len();
        let bytes = length.checked_sub(first).filter(|_| first > 0)?;
        let count = bytes / RECORD_BYTES;
        let table = Self { file, label, first, count, lowest: 0, own_program: None };
        let lowest = table.head(first)?.rank;
        Some(Self { lowest, ..table })
    }

    /// Posts the card of this process, whose rank is `rank`. A card that does not fit is not
    /// posted: peers ask the launcher for it.
    pub(crate) fn post(&mut self, rank: u32, card: &str) {
        let Some((place, head)) = self.record(rank) else { return };
        let program = head.program.wrapping_add(1).max(1);
        self.own_program = Some(program);
        if card.len() <= CARD_BYTES_MAX {
            // If the file has no room, peers ask the launcher.
            let _ = self.replace(place, Head { rank, program, length: card.len() as u32 }, card);
        }
    }

    fn replace(&self, place: u64, head: Head, card: &str) -> io::Result<()> {
        self.file.write_all_at(&Head { program: NO_PROGRAM, ..head }.bytes(), place)?;
        self.file.write_all_at(card.as_bytes(), place + HEAD_BYTES)?;
        self.file.write_all_at(&head.bytes(), place)
    }

    /// Returns the card of the process `rank`, if it is on this machine and has posted it.
    pub(crate) fn card(&self, rank: u32) -> Option<String> {
        let own_program =
            self.own_program.filter(|_| inherited::is_sound(&self.file, self.label))?;
        let (place, head) = self.record(rank)?;
        if head.program < own_program || head.length as usize > CARD_BYTES_MAX {
            return None;
        }
        let mut bytes = vec![0; head.length as usize];
        self.file.read_exact_at(&mut bytes, place + HEAD_BYTES).ok()?;
        // Another program of that rank may have replaced the card meanwhile.
        let is_whole = self.head(place)? == head;
        String::from_utf8(bytes).ok().filter(|card| is_whole && !card.is_empty())
    }

    /// Returns the place and the head of the record of a rank. Records are in the order of ranks.
    fn record(&self, rank: u32) -> Option<(u64, Head)> {
        let (mut low, mut high) = (0, self.count);
        // Mostly consecutive ranks are on a machine.
        let mut middle = u64::from(rank.saturating_sub(self.lowest)).min(high.saturating_sub(1));
        while low < high {
            let place = self.first + middle * RECORD_BYTES;
            let head = self.head(place)?;
            match head.rank.cmp(&rank) {
                Ordering::Equal => return Some((place, head)),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
            middle = low.midpoint(high);
        }
        None
    }

    fn head(&self, place: u64) -> Option<Head> {
        let mut bytes = [0; HEAD_BYTES as usize];
        self.file.read_exact_at(&mut bytes, place).ok()?;
        let (words, _) = bytes.as_chunks();
        let [rank, program, length] = [0, 1, 2].map(|word: usize| u32::from_le_bytes(words[word]));
        Some(Head { rank, program, length })
    }
}

impl Head {
    fn bytes(self) -> [u8; HEAD_BYTES as usize] {
        let mut bytes = [0; HEAD_BYTES as usize];
        for (place, word) in [self.rank, self.program, self.length].into_iter().enumerate() {
            bytes[4 * place..][..4].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    const FIRST: u64 = 64 << 10;
    const LABEL: &CStr = c"test";

    fn table(ranks: &[u32]) -> Arc<File> {
        let length = FIRST + table_bytes(ranks.len());
        let file = sys::mapping::create_memory_file(LABEL, length as usize).unwrap();
        create(&file, FIRST, ranks).unwrap();
        Arc::new(file)
    }

    fn process(file: &Arc<File>, rank: u32, card: &str) -> CardTable {
        let mut process = CardTable::find(Arc::clone(file), LABEL).unwrap();
        process.post(rank, card);
        process
    }

    #[test]
    fn cards_of_the_machine_are_found_by_rank() {
        let file = table(&[2, 3, 7, 30]);
        let one = process(&file, 2, "two");
        assert_eq!((one.card(2).as_deref(), one.card(7)), (Some("two"), None));
        let other = process(&file, 7, "seven");
        assert_eq!(
            (one.card(7).as_deref(), other.card(2).as_deref()),
            (Some("seven"), Some("two"))
        );
        for elsewhere in [0, 1, 4, 8, 31] {
            assert_eq!(one.card(elsewhere), None);
        }
        // A process that is not of the table reads nothing, as it does not know its program.
        assert_eq!(process(&file, 5, "five").card(2), None);
    }

    #[test]
    fn a_program_reads_no_card_of_an_earlier_one() {
        let file = table(&[0, 1]);
        let first = process(&file, 0, "first of 0");
        process(&file, 1, "first of 1");
        let second = process(&file, 0, "second of 0");
        assert_eq!(second.card(1), None);
        process(&file, 1, "second of 1");
        assert_eq!(second.card(1).as_deref(), Some("second of 1"));
        assert_eq!(first.card(1).as_deref(), Some("second of 1"));
    }

    #[test]
    fn a_card_that_does_not_fit_is_not_posted() {
        let file = table(&[0, 1]);
        let longest = "x".repeat(CARD_BYTES_MAX);
        process(&file, 0, &longest);
        let other = process(&file, 1, &format!("{longest}x"));
        assert_eq!((other.card(0), other.card(1)), (Some(longest), None));
    }

    #[test]
    fn a_file_of_a_launcher_without_a_table_has_none() {
        let file = sys::mapping::create_memory_file(LABEL, 2 * FIRST as usize).unwrap();
        assert!(CardTable::find(Arc::new(file), LABEL).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_of_the_table_are_survived(
            bytes in proptest::collection::vec(any::<u8>(), 3 * RECORD_BYTES as usize),
            first in any::<u64>(), rank in any::<u32>()
        ) {
            let file = table(&[0, 1, 2]);
            let mut process = process(&file, 1, "card");
            file.write_all_at(&bytes, FIRST).unwrap();
            process.card(rank);
            process.post(rank, "card");
            file.write_all_at(&first.to_le_bytes(), TABLE).unwrap();
            CardTable::find(file, LABEL).into_iter().for_each(|table| _ = table.card(rank));
        }
    }
}
