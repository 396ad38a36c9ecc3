use base::{RailId, RailProfile};
use fastrand::Rng;

use super::*;
use crate::tactic;

/// A rail of a test.
pub(crate) struct Rail {
    pub profile: RailProfile,
    pub model: RailModel,
    pub backlog: u64,
}

impl Rail {
    /// A rail with a bulk track that carries so many bytes per microsecond.
    pub(crate) fn new(bytes_per_us: u64) -> Self {
        let profile = RailProfile {
            name: "test".into(),
            packet_bytes_max: 65_536,
            eager_bytes_max: 32_768,
            fetch_segment_bytes_min: 0,
            latency_ns: 10_000,
            bandwidth_bytes_per_us: bytes_per_us,
            packet_ns: 2000,
            bulk: true,
            pushed_bytes: 0..0,
        };
        Self { model: RailModel::new(&profile), profile, backlog: 0 }
    }
}

pub(crate) fn views(rails: &[Rail]) -> Vec<RailView<'_>> {
    let view = |(id, rail): (u8, _)| {
        let &Rail { ref profile, ref model, backlog } = rail;
        let packet_bytes_max = profile.packet_bytes_max;
        RailView { id: RailId(id), profile, model, packet_bytes_max, backlog_bytes: backlog }
    };
    (0..).zip(rails).map(view).collect()
}

impl ChunkWindow for Vec<ChunkView> {
    fn len(&self) -> usize {
        self.as_slice().len()
    }

    fn offer(&self, index: usize) -> ChunkView {
        self[index]
    }
}

fn plan(
    strategy: &dyn Strategy,
    window: &Vec<ChunkView>,
    rails: &[Rail],
    rail: usize,
) -> PacketPlan {
    let mut plan = PacketPlan::default();
    strategy.plan(window, &views(rails), rail, &mut plan);
    plan
}

fn indices(plan: &PacketPlan) -> Vec<usize> {
    plan.entries.iter().map(|entry| entry.index).collect()
}

fn small() -> ChunkView {
    ChunkView::new(16, 64)
}

fn medium() -> ChunkView {
    ChunkView::new(16, 30_000)
}

fn large() -> ChunkView {
    ChunkView { divisible: true, ..ChunkView::new(24, 10 << 20) }
}

fn all() -> Vec<&'static dyn Strategy> {
    NAMES.iter().map(|name| by_name(name).unwrap()).collect()
}

#[test]
fn names_are_those_of_the_strategies() {
    NAMES.iter().for_each(|name| assert_eq!(by_name(name).unwrap().name(), *name));
    assert!(by_name("magic").is_none());
}

fn random_rails(rng: &mut Rng) -> Vec<Rail> {
    let mut rail = || {
        let mut rail = Rail::new([1, 50, 146, 1000, 10_000][rng.usize(..5)]);
        rail.profile.bulk = rng.u8(..4) > 0;
        rail.profile.latency_ns = [0, 100, 10_000][rng.usize(..3)];
        rail.profile.packet_ns = [0, 100, 2500][rng.usize(..3)];
        rail.model = RailModel::new(&rail.profile);
        rail.backlog = [0, 0, 1000, 1 << 20][rng.usize(..4)];
        rail
    };
    (0..4).map(|_| rail()).collect()
}

fn random_offer(rng: &mut Rng, rails: usize) -> ChunkView {
    let mut offer = match rng.u8(..8) {
        0 => ChunkView { divisible: true, ..ChunkView::new(24, 1 << rng.u32(0..28)) },
        1 => ChunkView::new(16, 0),
        2 => medium(),
        _ => ChunkView::new(16, rng.usize(..2000)),
    };
    if !offer.divisible && offer.payload > 0 {
        offer.flow = Some(rng.u64(..3));
    }
    if rng.u8(..6) == 0 {
        offer.rails = RailSet::only(RailId(rng.u8(..rails as u8)));
    }
    offer.priority = if rng.u8(..6) == 0 { rng.i32(-2..3) } else { 0 };
    offer.overtaken = if rng.u8(..10) == 0 { 8 } else { 0 };
    offer
}

fn check(window: &[ChunkView], rails: &[RailView<'_>], rail: usize, plan: &PacketPlan) {
    let view = &rails[rail];
    if let Some(part) = plan.part {
        let offer = window[part.index];
        assert!(plan.entries.is_empty() && plan.bytes == 0);
        assert!(view.profile.bulk && offer.divisible && offer.rails.contains(view.id));
        assert!(part.payload > 0 && part.payload <= offer.payload);
        return;
    }
    assert!(plan.entries.is_sorted_by(|a, b| a.index < b.index));
    assert!(plan.bytes <= view.packet_bytes_max);
    let bytes = |entry: &PlannedChunk| wire::padded(window[entry.index].header, entry.payload);
    assert_eq!(plan.bytes, plan.entries.iter().map(bytes).sum::<usize>());
    for entry in &plan.entries {
        let offer = window[entry.index];
        assert!(offer.rails.contains(view.id));
        assert!(entry.payload == offer.payload || offer.divisible && !view.profile.bulk);
        let older = window[..entry.index].iter().enumerate();
        for (index, _) in
            older.filter(|(_, older)| older.flow.is_some() && older.flow == offer.flow)
        {
            let goes = plan.entries.iter().any(|entry| entry.index == index);
            assert!(goes, "{index} is overtaken by {} of its flow", entry.index);
        }
    }
}

#[test]
fn plans_can_be_carried_out_and_some_rail_always_has_one() {
    let mut rng = Rng::with_seed(4);
    for round in 0..if cfg!(miri) { 1 } else { 4000 } {
        let mut rails = random_rails(&mut rng);
        rails.truncate(rng.usize(1..=4));
        let count = [1, 2, 10, 100][rng.usize(..4)];
        let window: Vec<_> =
            (0..rng.usize(1..=count)).map(|_| random_offer(&mut rng, rails.len())).collect();
        for strategy in all() {
            let mut some = false;
            for rail in 0..rails.len() {
                let plan = plan(strategy, &window, &rails, rail);
                check(&window, &views(&rails), rail, &plan);
                some |= plan.part.is_some() || !plan.entries.is_empty();
            }
            assert!(some, "round {round}: {strategy:?} sends nothing: {window:?}");
        }
    }
}

#[test]
fn small_ones_share_a_packet_and_large_ones_do_not() {
    let window = vec![small(), small(), ChunkView::new(16, 0), medium(), small()];
    let rails = [Rail::new(125)];
    assert_eq!(indices(&plan(&Direct, &window, &rails, 0)), [0]);
    assert_eq!(indices(&plan(&Aggregate, &window, &rails, 0)), [0, 1, 2]);
    assert_eq!(indices(&plan(&Split, &window, &rails, 0)), [0, 1, 2, 4]);
    let window = vec![medium(), medium(), medium()];
    for strategy in all() {
        assert_eq!(indices(&plan(strategy, &window, &rails, 0)), [0], "{strategy:?}");
    }
}

#[test]
fn what_was_overtaken_often_goes_first() {
    let rails = [Rail::new(125)];
    let mut window = vec![medium(), small(), small()];
    assert_eq!(indices(&plan(&Split, &window, &rails, 0)), [1, 2]);
    window[0].overtaken = 8;
    assert_eq!(indices(&plan(&Split, &window, &rails, 0))[0], 0);
    let mut window = vec![large(), small()];
    assert_eq!(indices(&plan(&Split, &window, &rails, 0)), [1]);
    window[0].overtaken = 8;
    assert!(plan(&Split, &window, &rails, 0).part.is_some());
}

#[test]
fn urgent_ones_go_first_but_not_before_older_ones_of_their_flow() {
    let rails = [Rail::new(125)];
    let urgent = ChunkView { priority: 5, ..medium() };
    assert_eq!(indices(&plan(&Priority, &vec![medium(), urgent, small()], &rails, 0)), [1]);
    let window = vec![medium(), small(), ChunkView { priority: 5, ..small() }];
    assert_eq!(indices(&plan(&Priority, &window, &rails, 0)), [1, 2], "small ones come along");
    let flow = |offer| ChunkView { flow: Some(1), ..offer };
    let window = vec![medium(), flow(medium()), flow(urgent)];
    assert_eq!(indices(&plan(&Priority, &window, &rails, 0)), [1], "the urgent one follows it");
    let window = vec![large(), ChunkView { priority: 1, ..large() }];
    assert_eq!(plan(&Priority, &window, &rails, 0).part.unwrap().index, 1);
}

#[test]
fn small_ones_go_by_the_rail_that_delivers_them_first() {
    let mut rails = [Rail::new(100), Rail::new(1000)];
    rails[0].profile.latency_ns = 5000;
    rails[0].model = RailModel::new(&rails[0].profile);
    let window = vec![small(), small()];
    for strategy in all() {
        assert!(!indices(&plan(strategy, &window, &rails, 0)).is_empty(), "{strategy:?}");
        assert!(indices(&plan(strategy, &window, &rails, 1)).is_empty(), "{strategy:?}");
    }
    rails[0].backlog = 100_000;
    for strategy in all() {
        assert!(indices(&plan(strategy, &window, &rails, 0)).is_empty(), "{strategy:?}");
        assert!(!indices(&plan(strategy, &window, &rails, 1)).is_empty(), "{strategy:?}");
    }
}

#[test]
fn only_split_gives_a_part_to_the_slower_rail() {
    let rails = [Rail::new(146), Rail::new(106)];
    let parts = |strategy: &dyn Strategy| {
        [0, 1].map(|rail| plan(strategy, &vec![large()], &rails, rail).part.is_some())
    };
    assert_eq!(parts(&Split), [true, true]);
    assert_eq!(parts(&Auto), [true, true]);
    assert_eq!(parts(&Aggregate), [true, false]);
    assert_eq!(parts(&Direct), [true, false]);
}

#[test]
fn predictions_follow_each_packet_from_one_processor_over_the_rail_to_the_other() {
    let rails = [Rail::new(125)];
    let (views, model) = (views(&rails), &rails[0].model);
    let predicted = |strategy: &dyn Strategy, window: &Vec<ChunkView>, limit| {
        let candidate: prediction::Candidate<'_> =
            &|window, rails, rail, plan| strategy.plan(window, rails, rail, plan);
        let oldest = prediction::OldestChunks::new(window, &views);
        oldest.predict(candidate, &views, 0, limit, &mut PacketPlan::default())
    };
    let (packet, latency) = (model.packet_ns(), model.latency_ns());
    // Of two packets, the second is made while the first is underway.
    let [(made, carried), (made_too, carried_too)] = [small(), medium()].map(|offer| {
        let bytes = offer.bytes() as u64;
        (packet + model.copy_ns(bytes), model.transfer_ns(bytes))
    });
    let first = made + carried + latency + made;
    let begins = (made + made_too).max(made + carried);
    let second = first.max(begins + carried_too + latency) + made_too;
    let window = vec![small(), medium()];
    assert_eq!(predicted(&Direct, &window, u64::MAX), second + (first + second) / 2);
    assert_eq!(predicted(&Direct, &window, first), u64::MAX, "it is known to be worse");
    // The chunks of one packet arrive together.
    let window = vec![small(), small()];
    let bytes = 2 * small().bytes() as u64;
    let both = 2 * (packet + model.copy_ns(bytes)) + model.transfer_ns(bytes) + latency;
    assert_eq!(predicted(&Aggregate, &window, u64::MAX), 2 * both);
    // A large message arrives with its last part; the prediction covers two parts, which are not
    // copied.
    let part = model.transfer_ns(tactic::part_bytes_max(model) as u64);
    let (first, begins) = (packet + part + latency + packet, (2 * packet).max(packet + part));
    let last = first.max(begins + part + latency) + packet;
    assert_eq!(predicted(&Direct, &vec![large()], u64::MAX), 2 * last);
}

#[test]
fn auto_takes_what_is_best() {
    let rails = [Rail::new(125)];
    let window = vec![small(); 100];
    assert_eq!(plan(&Auto, &window, &rails, 0).entries.len(), 100);
    let window = vec![medium(), small(), small(), ChunkView::new(16, 0)];
    assert_eq!(indices(&plan(&Auto, &window, &rails, 0)), [1, 2, 3]);
}
