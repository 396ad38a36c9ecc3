use super::*;

fn set(size: u32, members: &[u32]) -> MemberSet {
    let mut set = MemberSet::none(size);
    for &member in members {
        set.insert(member);
    }
    set
}

fn decision(size: u32) -> Decision {
    Decision {
        flags: [-1, 7],
        absent: set(size, &[1]),
        failed: set(size, &[1, size - 1]),
        acknowledged: set(size, &[size - 1]),
        candidate: 1 << 40,
    }
}

#[test]
fn messages_come_as_they_went() {
    for size in [2, 64, 65, 200] {
        let contribution =
            Contribution { flags: [3, -4], acknowledged: set(size, &[0]), candidate: 5 };
        let contributors = set(size, &[0, size - 1]);
        let report = MemberReport { contributors, contribution, accepted: None };
        let contents = [
            MessageContent::Ask,
            MessageContent::Report(report.clone()),
            MessageContent::Report(MemberReport { accepted: Some((1, decision(size))), ..report }),
            MessageContent::Propose(decision(size)),
            MessageContent::Accept(set(size, &[1])),
            MessageContent::Decided(decision(size)),
        ];
        for content in contents {
            let message =
                AgreementMessage { number: 9, round: 1, failed: set(size, &[1]), content };
            let bytes = message.to_bytes();
            assert_eq!(AgreementMessage::from_bytes(&bytes, size).as_ref(), Some(&message));
            let shorter = &bytes[..bytes.len() - 1];
            assert_eq!(AgreementMessage::from_bytes(shorter, size), None);
        }
    }
}

#[test]
fn what_no_member_writes_is_no_message() {
    let failed = MemberSet::none(3);
    let ask =
        AgreementMessage { number: 1, round: 2, failed, content: MessageContent::Ask }.to_bytes();
    for (place, value) in [(0, 5), (5, 3), (9, 1)] {
        let mut bytes = ask.clone();
        bytes[place] = value;
        assert_eq!(AgreementMessage::from_bytes(&bytes, 3), None, "byte {place}");
    }
    // Members that do not exist, runs of no members, and runs that touch or are in no order.
    for runs in [vec![(2_u32, 4_u32)], vec![(1, 1)], vec![(0, 1), (1, 2)], vec![(2, 3), (0, 1)]] {
        let mut bytes = ask[..9].to_vec();
        bytes.extend((runs.len() as u32).to_le_bytes());
        let numbers = runs.iter().flat_map(|(first, end)| [first, end]);
        bytes.extend(numbers.flat_map(|number| number.to_le_bytes()));
        assert_eq!(AgreementMessage::from_bytes(&bytes, 3), None, "{runs:?}");
    }
}

#[test]
fn a_failure_is_reported_unless_all_that_contributed_had_acknowledged_it() {
    let reported = |reports: [Option<&[u32]>; 3]| {
        let of_member = |(member, acknowledged): (u32, Option<&[u32]>)| {
            let acknowledged = set(3, acknowledged?);
            let contribution = Contribution { flags: [6, -1], acknowledged, candidate: 2 };
            Some(MemberReport { contributors: set(3, &[member]), contribution, accepted: None })
        };
        let mut reports = (0..).zip(reports).filter_map(of_member);
        let mut all = reports.next().expect("one has reported");
        reports.for_each(|report| all.combine(&report));
        chosen(&all, &set(3, &[2])).reports_failure()
    };
    assert!(reported([Some(&[2]), Some(&[]), None]));
    assert!(!reported([Some(&[2]), Some(&[2]), None]));
    assert!(!reported([Some(&[]), Some(&[]), Some(&[])]), "it contributed before it failed");
}

#[test]
fn of_many_members_none_exchanges_messages_with_many() {
    const SIZE: u32 = 64_000;
    let mut members: Vec<Agreement> = (0..SIZE).map(|own| Agreement::new(own, SIZE)).collect();
    let failed = [0, 30_000, SIZE - 1];
    let mut pending = VecDeque::new();
    let mut longest = 0;
    let mut received = vec![0; SIZE as usize];
    for own in (0..SIZE).filter(|own| !failed.contains(own)) {
        let member = &mut members[own as usize];
        failed.iter().for_each(|other| member.handle_failure(*other));
        let contribution =
            Contribution { flags: [-1; 2], acknowledged: set(SIZE, &failed), candidate: 1 };
        member.begin(contribution);
        pending.push_back(own);
    }
    let mut sent = 0;
    while let Some(from) = pending.pop_front() {
        while let Some((to, message)) = members[from as usize].next_message() {
            sent += 1;
            longest = longest.max(message.to_bytes().len());
            received[to as usize] += 1;
            members[to as usize].handle_message(from, message);
            pending.push_back(to);
        }
    }
    let decides = |own: u32| members[own as usize].decision(1);
    assert_eq!(decides(1).map(|decision| decision.reports_failure()), Some(false));
    assert!((0..SIZE).all(|own| failed.contains(&own) || decides(own) == decides(1)));
    // All have been asked, as the round is not the first.
    assert!(sent <= 6 * SIZE, "{sent} messages");
    // A star has the coordinator receive two messages of each member.
    let busiest = received.into_iter().max();
    assert!(busiest <= Some(4 * SIZE.ilog2()), "{busiest:?} messages to one member");
    assert!(longest < 200, "a message of {longest} bytes");
}
