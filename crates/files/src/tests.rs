//! Tests random transfers through random views against a model: the bytes of the file as a list.

use std::sync::Arc;

use datatype::{ArgumentForm, Construction, Datatype, Predefined};
use memory::LentBuffer;
use proptest::prelude::*;

use crate::storage::{Direction, Storage};
use crate::transfer::{FileAccess, SieveSettings, WriteGuard};
use crate::view::View;
use crate::world::MemoryFile;

/// Returns a view whose tiles have runs of these lengths, each behind a gap. With a negative tail,
/// tiles begin before the previous one ends.
pub(crate) fn view_of(displacement: u64, runs: &[(u8, u8)], tail: i8) -> View {
    let of = Datatype::named(Predefined::Byte).borrowed();
    let mut end = 0;
    let displacements = runs.iter().map(|(gap, length)| {
        let at = end + i64::from(*gap);
        end = at + i64::from(*length);
        at
    });
    let displacements = displacements.collect();
    let block_lengths = runs.iter().map(|(_, length)| i64::from(*length)).collect();
    let inner = Construction::Indexed { block_lengths, displacements, of };
    let of = Datatype::create(inner, ArgumentForm::Int).unwrap().borrowed();
    let extent = (end + i64::from(tail)).max(0);
    let outer = Construction::Resized { lower_bound: 0, extent, of };
    let filetype = Datatype::create(outer, ArgumentForm::Int).unwrap();
    View::new(displacement, Datatype::named(Predefined::Byte), &filetype).unwrap()
}

/// Returns the file offsets of a range of the stream.
pub(crate) fn offsets(view: &View, position: u64, length: u64) -> Vec<u64> {
    let mut offsets = Vec::new();
    view.runs(position, length, &mut |offset, length| {
        offsets.extend(offset..offset + length);
        true
    });
    offsets
}

pub(crate) fn lent(bytes: &[u8]) -> LentBuffer {
    let memory = LentBuffer::zeroed(bytes.len());
    memory.write(0, bytes);
    memory
}

pub(crate) fn content(memory: &LentBuffer) -> Vec<u8> {
    let mut bytes = vec![0; memory.len()];
    memory.read(0, &mut bytes);
    bytes
}

fn sieve_settings() -> impl Strategy<Value = SieveSettings> {
    (
        prop::sample::select(vec![0, 7, 64, 4096]),
        prop::sample::select(vec![0, 9, 64, 4096]),
        any::<(bool, bool)>(),
        prop::sample::select(vec![WriteGuard::None, WriteGuard::Threads, WriteGuard::Locks]),
        any::<bool>(),
    )
        .prop_map(|(read_together, write_together, forces, guard, atomic)| SieveSettings {
            read_together,
            write_together,
            forces_reads: forces.0,
            forces_writes: forces.1,
            guard: if atomic { WriteGuard::None } else { guard },
            atomic,
        })
}

/// Returns how a process with these settings accesses a file.
fn access(file: &Arc<MemoryFile>, sieve_settings: SieveSettings) -> FileAccess {
    let storage = Arc::clone(file) as Arc<dyn Storage>;
    FileAccess { storage, sieve_settings, exclusion: Arc::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn transfers_move_what_the_view_shows(
        seed in any::<u64>(),
        runs in prop::collection::vec((0_u8..9, 1_u8..9), 1..5),
        (displacement, tail) in (0_u64..9, 0_i8..9),
        (size, position, length) in (0_usize..300, 0_u64..90, 0_usize..90),
        sieve_settings in sieve_settings(),
        broken in prop::option::of(0_u64..300),
        size_max in prop::sample::select(vec![60, 200, u64::MAX]),
        writes in any::<bool>(),
    ) {
        let view = view_of(displacement, &runs, tail);
        let before: Vec<u8> = (0..size).map(|at| (at % 200 + 1) as u8).collect();
        let file = MemoryFile::new(seed, before.clone()).limited(size_max, broken);
        let file = Arc::new(file);
        let data: Vec<u8> = (0..length).map(|at| 255 - (at % 50) as u8).collect();
        let memory = lent(&data);
        let direction = if writes { Direction::Write } else { Direction::Read };
        let access = access(&file, sieve_settings);
        let progress = access.transfer(&view, position, &memory, direction);
        prop_assert!(file.is_unlocked());
        let offsets = offsets(&view, position, length as u64);
        let done = progress.bytes as usize;
        prop_assert!(done <= length);
        if let Some(fault) = &progress.fault {
            prop_assert!(done < length);
            let is_known = broken == Some(fault.offset) || fault.offset >= size_max;
            prop_assert!(is_known, "{fault:?}");
        }
        let after = file.bytes();
        if writes {
            prop_assert!(progress.fault.is_some() || done == length);
            let byte = |bytes: &[u8], at: u64| bytes.get(at as usize).copied().unwrap_or(0);
            for (at, offset) in offsets.iter().enumerate().take(done) {
                prop_assert_eq!(byte(&after, *offset), data[at]);
            }
            // No other byte has changed, except those written of a run that failed.
            for at in 0..after.len() as u64 {
                if !offsets.contains(&at) {
                    prop_assert_eq!(byte(&after, at), byte(&before, at));
                }
            }
            prop_assert!(after.len() >= before.len());
        } else {
            prop_assert_eq!(&after, &before);
            let there = offsets.iter().take_while(|offset| **offset < size as u64).count();
            prop_assert!(progress.fault.is_some() || done == there, "{done} of {there}");
            let seen = content(&memory);
            for (at, offset) in offsets.iter().enumerate().take(done) {
                prop_assert_eq!(seen[at], before[*offset as usize]);
            }
        }
    }
}
