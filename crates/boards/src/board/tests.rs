use super::*;

use std::fs::File;
use std::time::Duration;

use memory::Nonce;

const BLOCKING: Series = Series::new(SeriesOrder::Blocking, SlotSize::Small);
const BEGUN: Series = Series::new(SeriesOrder::Begun, SlotSize::Medium);
const SLOT_BYTES: usize = SlotSize::Medium.bytes();

/// The bell of a member that never sleeps.
#[derive(Debug)]
struct Awake;

impl Wake for Awake {
    fn wake(&self) {}
}

/// Returns memory for a board, as the members find it.
fn memory_for(members: u32) -> (File, Nonce) {
    let (memory, file) = SharedMemory::create(0, bytes_of(members)).unwrap();
    (file, memory.nonce())
}

/// Returns the board of a member, with a mapping of its own.
fn board_in((file, nonce): &(File, Nonce), members: u32, own: u32) -> Board<Awake> {
    let memory = SharedMemory::map(file, *nonce, 0, bytes_of(members)).unwrap();
    Board::new(memory, members, own, Vec::new())
}

/// Returns the boards of all members of a communicator.
fn boards(members: u32) -> Vec<Board<Awake>> {
    let memory = memory_for(members);
    (0..members).map(|own| board_in(&memory, members, own)).collect()
}

#[test]
fn what_was_raised_can_be_read() {
    let boards = boards(2);
    let turns = [boards[0].begin(BLOCKING, 1), boards[1].begin(BLOCKING, 1)];
    assert!(boards[0].is_free(turns[0], true));
    boards[0].write(turns[0], 100, 3, |slot| slot.copy_from(b"abc"));
    assert!(boards[1].raised(turns[1], 0, 1).is_none());
    boards[0].raise(turns[0], 1, 103, None);
    assert_eq!(boards[1].raised(turns[1], 0, 1), Some(103));
    assert_eq!(boards[1].raised(turns[1], 0, 2), None);
    assert_eq!(boards[1].length(turns[1], 0), 103);
    boards[1].read(turns[1], 0, 100, 3, |slot| assert_eq!(slot.to_vec(), b"abc"));
    let other = boards[1].begin(BEGUN, 1);
    assert_eq!(boards[1].raised(other, 0, 1), None, "series are apart");
}

#[test]
fn a_slot_is_not_free_before_all_have_completed_its_last_operation() {
    let boards = boards(3);
    let begin = |member: usize| boards[member].begin(BEGUN, 1);
    let turns: Vec<[BoardTurn; 3]> = (0..=16).map(|_| std::array::from_fn(begin)).collect();
    let last = turns[16];
    for (member, board) in boards.iter().enumerate() {
        assert!(!boards[0].is_free(last[0], true));
        // Completes them in any order.
        for number in (0..16).map(|number| number ^ 3) {
            board.complete(turns[number][member]);
        }
    }
    assert!((0..3).all(|member| boards[member].is_free(last[member], true)));
}

#[test]
fn flags_tell_how_far_the_others_are() {
    let boards = boards(2);
    for _ in 0..100 {
        let turns = [boards[0].begin(BLOCKING, 1), boards[1].begin(BLOCKING, 1)];
        for (board, turn) in boards.iter().zip(turns) {
            assert!(board.is_free(turn, true));
            board.raise(turn, 1, 0, None);
        }
        assert!(
            [(0, 1), (1, 0)]
                .iter()
                .all(|&(one, other)| { boards[one].raised(turns[one], other as u32, 1).is_some() })
        );
        boards.iter().zip(turns).for_each(|(board, turn)| board.complete(turn));
    }
}

#[test]
fn reserved_series_are_apart_and_go_on_when_they_are_reserved_again() {
    let boards = boards(2);
    let reserved = |board: &Board<Awake>, number| {
        board.reserve(SlotSize::Large, number);
        Series::new(SeriesOrder::Reserved(number), SlotSize::Large)
    };
    for run in 0..5_u8 {
        assert!(boards.iter().all(|board| board.free_series(SlotSize::Large) == 0b11));
        let [one, other] = [0, 1].map(|number| {
            let both = boards.iter().map(|board| reserved(board, number));
            both.collect::<Vec<_>>()[0]
        });
        assert_eq!(boards[0].free_series(SlotSize::Large), 0);
        // The members start the two in different orders.
        let (first, second) = (boards[0].begin(one, 1), boards[0].begin(other, 1));
        let (fourth, third) = (boards[1].begin(other, 1), boards[1].begin(one, 1));
        for (turn, mark) in [(first, 1), (second, 2)] {
            assert!(boards[0].is_free(turn, true));
            boards[0].write(turn, 0, 2, |slot| slot.copy_from(&[run, mark]));
            boards[0].raise(turn, 1, 2, None);
        }
        for (turn, mark) in [(third, 1), (fourth, 2)] {
            assert_eq!(boards[1].raised(turn, 0, 1), Some(2));
            boards[1].read(turn, 0, 0, 2, |slot| assert_eq!(slot.to_vec(), [run, mark]));
            boards[1].complete(turn);
        }
        boards[0].complete(second);
        boards[0].complete(first);
        for (board, series) in boards.iter().flat_map(|board| [(board, one), (board, other)]) {
            board.give_back(series);
        }
    }
}

#[test]
fn members_that_run_ahead_wait_for_those_that_read_slowly() {
    let memory = memory_for(3);
    let open = |own| board_in(&memory, 3, own);
    let write = |first: Board<Awake>| {
        for number in 0..10_000_u64 {
            let turn = first.begin(BLOCKING, 1);
            while !first.is_free(turn, true) {
                std::thread::yield_now();
            }
            let number = number.to_le_bytes();
            first.write(turn, 40, 16, |slot| slot.copy_from(&[number; 2].concat()));
            first.raise(turn, 1, 56, None);
            first.complete(turn);
        }
    };
    let read = |board: Board<Awake>| {
        for number in 0..10_000_u64 {
            let turn = board.begin(BLOCKING, 1);
            while board.raised(turn, 0, 1).is_none() {
                std::thread::yield_now();
            }
            let expected = [number.to_le_bytes(); 2].concat();
            board.read(turn, 0, 40, 16, |slot| assert_eq!(slot.to_vec(), expected));
            board.complete(turn);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| write(open(0)));
        scope.spawn(|| read(open(1)));
        read(open(2));
    });
}

#[test]
fn what_is_written_in_several_ways_can_be_read() {
    let [reader, writer] = <[Board<Awake>; 2]>::try_from(boards(2)).unwrap();
    // The first write seems slow, so writes are timed and then go past the caches.
    writer.store_choice.note(LONG_BYTES_MIN, Duration::from_secs(1));
    let turns = [&reader, &writer].map(|board| board.begin(BEGUN, 1));
    let length = TIMED_BYTES + 100;
    writer.write_long(turns[1], 8, length, |done, slot, _| {
        let bytes: Vec<u8> = (done..done + slot.len()).map(|number| number as u8).collect();
        slot.copy_from(&bytes);
    });
    writer.raise(turns[1], 1, 8 + length, None);
    assert!(reader.raised(turns[0], 1, 1).is_some());
    reader.read(turns[0], 1, 8, length, |slot| {
        assert!((0..).zip(slot.to_vec()).all(|(number, byte): (usize, _)| byte == number as u8));
    });
}

#[test]
fn each_portion_is_claimed_once() {
    let boards = boards(3);
    for _ in 0..40 {
        let turns: Vec<BoardTurn> = boards.iter().map(|board| board.begin(BEGUN, 1)).collect();
        assert!(boards[0].is_free(turns[0], true));
        boards[0].divide(turns[0]);
        boards.iter().zip(&turns).for_each(|(board, turn)| board.raise(*turn, 1, 0, None));
        for portion in [0, 63] {
            let claimed = (0..3).filter(|member| boards[*member].claim(turns[*member], portion));
            assert_eq!(claimed.count(), 1);
        }
        assert_eq!(boards[1].ended_portions(turns[1]), 0);
        boards[2].end_portion(turns[2]);
        assert_eq!(boards[1].ended_portions(turns[1]), 1);
        boards.iter().zip(turns).for_each(|(board, turn)| board.complete(turn));
    }
}

#[test]
fn the_others_are_woken_when_a_member_completes() {
    struct Counting(Rc<Cell<u32>>);
    impl Wake for Counting {
        fn wake(&self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let woken = Rc::new(Cell::new(0));
    let (memory, _file) = SharedMemory::create(0, bytes_of(2)).unwrap();
    let board = Board::new(memory, 2, 0, vec![Counting(Rc::clone(&woken))]);
    // Completion is published once in an eighth of the slots, without a raised stage.
    for expected in 1..=3 {
        for _ in 0..divisions(2)[BLOCKING.index()].slots as u64 / REPORTS_PER_SLOTS {
            assert_eq!(woken.get(), expected - 1);
            board.complete(board.begin(BLOCKING, 1));
        }
        assert_eq!(woken.get(), expected);
    }
    board.raise(board.begin(BEGUN, 1), 1, 0, None);
    assert_eq!(woken.get(), 4);
}

#[test]
fn nobody_leaves_the_slots() {
    let boards = boards(2);
    let turn = boards[0].begin(BEGUN, 1);
    boards[0].raise(turn, 1, usize::MAX >> BEHIND_BITS, None);
    assert_eq!(boards[0].length(turn, 0), SLOT_BYTES);
    let read = |offset, length| {
        let inspect = || boards[0].read(turn, 1, offset, length, |slot| slot.len());
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(inspect)).is_ok()
    };
    assert!(read(SLOT_BYTES - 1, 1) && read(SLOT_BYTES, 0));
    assert!(!read(SLOT_BYTES, 1) && !read(1, SLOT_BYTES) && !read(usize::MAX, 2));
}

#[test]
fn the_memory_of_large_boards_is_bounded() {
    const MIB: usize = 1 << 20;
    // What operations can touch of the slots that many operations share, for each series with
    // middle slots.
    for (members, bound) in [(2, 5 * MIB), (32, 70 * MIB), (64, 70 * MIB), (512, 140 * MIB)] {
        let middle = divisions(members)[SlotSize::Medium as usize];
        let all = middle.member_stride() * members as usize;
        assert!(all <= bound, "{members} members: {all} bytes");
        assert!(bytes_of(members) <= members as usize * 19 * MIB, "{members} members");
    }
    // A member keeps nothing about the others before it needs a slot of a series again.
    let board = board_in(&memory_for(300), 300, 7);
    let entries = |board: &Board<Awake>| -> usize {
        board.series.iter().filter_map(|state| Some(state.known.get()?.len())).sum()
    };
    for _ in 0..divisions(300)[BLOCKING.index()].slots {
        let turn = board.begin(BLOCKING, 1);
        assert!(board.is_free(turn, true));
        board.complete(turn);
    }
    assert_eq!(entries(&board), 0);
    assert!(!board.is_free(board.begin(BLOCKING, 1), true), "the others have completed nothing");
    assert_eq!(entries(&board), 300);
}

#[test]
fn slots_of_the_last_member_of_a_large_board_lie_in_its_memory() {
    let memory = memory_for(300);
    let [first, last] = [0, 299].map(|own| board_in(&memory, 300, own));
    for slots in SlotSize::ALL {
        let series = Series::new(SeriesOrder::Begun, slots);
        for round in 0..3 {
            let turns = [first.begin(series, 1), last.begin(series, 1)];
            let at = slots.bytes() - 4;
            last.write(turns[1], at, 4, |slot| slot.copy_from(&[round; 4]));
            last.raise(turns[1], 1, slots.bytes(), None);
            assert_eq!(first.raised(turns[0], 299, 1), Some(slots.bytes()));
            first.read(turns[0], 299, at, 4, |slot| assert_eq!(slot.to_vec(), [round; 4]));
            first.complete(turns[0]);
            last.complete(turns[1]);
        }
    }
}

/// Counts how often a member is woken.
struct Counting(Rc<Cell<u32>>);

impl Wake for Counting {
    fn wake(&self) {
        self.0.set(self.0.get() + 1);
    }
}

/// Returns the views of three members, and how often each is woken.
fn counting_boards() -> (Vec<Board<Counting>>, [Rc<Cell<u32>>; 3]) {
    let (memory, _file) = SharedMemory::create(0, bytes_of(3)).unwrap();
    let woken: [Rc<Cell<u32>>; 3] = Default::default();
    let view = |own: u32| {
        let others = (0..3).filter(|member| *member != own as usize);
        let bells = others.map(|member| Counting(Rc::clone(&woken[member]))).collect();
        Board::new(Rc::clone(&memory), 3, own, bells)
    };
    ((0..3).map(view).collect(), woken)
}

#[test]
fn a_stage_with_one_reader_wakes_that_member_only() {
    let (boards, woken) = counting_boards();
    let turns: Vec<_> = boards.iter().map(|board| board.begin(BLOCKING, 1)).collect();
    for (member, reader) in [(0, 2), (1, 0), (1, 2), (2, 1)] {
        boards[member].raise(turns[member], 1, 0, Some(reader));
        let wakes = woken.each_ref().map(|woken| woken.replace(0));
        assert_eq!(wakes, [0, 1, 2].map(|other| u32::from(other == reader)), "of {member}");
    }
}

#[test]
fn a_member_that_awaits_one_stage_is_woken_by_that_stage_only() {
    let (boards, woken) = counting_boards();
    let wakes = |member: usize| woken[member].replace(0);
    let turns: Vec<_> = boards.iter().map(|board| board.begin(BLOCKING, 1)).collect();
    boards[0].await_stage(turns[0], 2, 2);
    boards[1].raise(turns[1], 2, 0, None);
    assert_eq!((wakes(0), wakes(2)), (0, 1), "member 2 has not said what it waits for");
    boards[2].raise(turns[2], 1, 0, None);
    assert_eq!((wakes(0), wakes(1)), (0, 1), "it is an earlier stage");
    boards[2].raise(turns[2], 3, 0, None);
    assert_eq!((wakes(0), wakes(1)), (1, 1), "a later stage comes after the awaited one");
    // A wait that is over, and a second operation, let all members ring again.
    boards[0].await_any();
    boards[1].raise(turns[1], 3, 0, None);
    assert_eq!(wakes(0), 1);
    boards[0].await_stage(turns[0], 2, 4);
    let second = boards[0].begin(BEGUN, 1);
    boards[1].raise(turns[1], 4, 0, None);
    assert_eq!(wakes(0), 1);
    boards[0].await_stage(turns[0], 2, 4);
    boards[1].raise(turns[1], 5, 0, None);
    assert_eq!(wakes(0), 1, "two operations are underway");
    boards[0].complete(second);
    boards[0].await_stage(turns[0], 2, 4);
    boards[1].raise(turns[1], 6, 0, None);
    assert_eq!(wakes(0), 0);
    // Neither an earlier operation nor another series is meant.
    boards[2].raise(boards[2].begin(BEGUN, 1), 4, 0, None);
    boards[0].complete(turns[0]);
    let next = boards[0].begin(BLOCKING, 1);
    boards[0].await_stage(next, 2, 1);
    boards[2].raise(turns[2], 9, 0, None);
    assert_eq!(wakes(0), 0);
    boards[2].raise(boards[2].begin(BLOCKING, 1), 1, 0, None);
    assert_eq!(wakes(0), 1);
}

#[test]
fn an_awaited_stage_is_reached_across_the_end_of_the_bits_for_flags() {
    let turn = |number| BoardTurn { series: BLOCKING, number };
    let last = (1 << (AwaitedStage::FLAG_BITS - u16::BITS)) - 2;
    let [before, after] = [last, last + 1].map(|number| AwaitedStage::new(turn(number), 511, 1));
    let flag = |stage: AwaitedStage| stage.0 << (u64::BITS - AwaitedStage::FLAG_BITS);
    assert!(flag(before) > flag(after), "the lower bits begin again");
    assert!(before.is_reached_by(after) && !after.is_reached_by(before));
    assert!(!AwaitedStage::new(turn(3), 4, 1).is_reached_by(AwaitedStage::new(turn(3), 5, 1)));
    assert!(AwaitedStage::new(turn(0), 0, 0).0 != ANY);
}
