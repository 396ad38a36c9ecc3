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
        let contents = [
            MessageContent::Ask,
            MessageContent::Report { contribution: contribution.clone(), accepted: None },
            MessageContent::Report { contribution, accepted: Some((1, decision(size))) },
            MessageContent::Propose(decision(size)),
            MessageContent::Accept,
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
    for (place, value) in [(0, 5), (5, 3), (9, 1 << 3)] {
        let mut bytes = ask.clone();
        bytes[place] = value;
        assert_eq!(AgreementMessage::from_bytes(&bytes, 3), None, "byte {place}");
    }
}

#[test]
fn a_failure_is_reported_unless_all_that_contributed_had_acknowledged_it() {
    let report = |acknowledged: &[u32]| {
        let acknowledged = set(3, acknowledged);
        let contribution = Contribution { flags: [6, -1], acknowledged, candidate: 2 };
        Some(MemberReport { contribution, accepted: None })
    };
    let reported =
        |reports: [Option<MemberReport>; 3]| chosen(&reports, &set(3, &[2])).reports_failure();
    assert!(reported([report(&[2]), report(&[]), None]));
    assert!(!reported([report(&[2]), report(&[2]), None]));
    assert!(!reported([report(&[]), report(&[]), report(&[])]), "it contributed before it failed");
}
