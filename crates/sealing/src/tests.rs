use super::*;

fn agreement(side: SealingSide, secret: u8, context: &[u8]) -> KeyAgreement {
    KeyAgreement::new(side, &[secret; 32], context)
}

/// Returns the two ends of a stream.
fn pair() -> [Sealing; 2] {
    let mut first = agreement(SealingSide::Initiator, 1, b"here");
    let (answer, there) =
        agreement(SealingSide::Responder, 1, b"here").answer(&first.offer().unwrap()).unwrap();
    [first.finish(&answer).unwrap(), there]
}

fn sealed(from: &mut Sealing, content: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    from.seal(content, &mut record);
    record
}

fn opened(by: &mut Sealing, record: &[u8]) -> Result<Vec<u8>, Tampered> {
    let mut content = vec![0; content_bytes(record.len())];
    by.open(record, &mut content).map(|()| content)
}

#[test]
fn records_of_all_lengths_arrive() {
    let [mut one, mut other] = pair();
    for length in [0, 1, 15, 16, 17, 1000, CONTENT_BYTES_MAX - 1, CONTENT_BYTES_MAX] {
        let content: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let record = sealed(&mut one, &content);
        assert_eq!(record_bytes(&record), Ok(Some(record.len())));
        assert_eq!(record_bytes(&record[..record.len() - 1]), Ok(None));
        assert_eq!(record.len(), length + RECORD_OVERHEAD);
        assert!(length < 16 || !record.windows(16).any(|some| some == &content[..16]));
        assert_eq!(opened(&mut other, &record), Ok(content.clone()));
        let back = sealed(&mut other, &content);
        assert_ne!(back, record, "each direction has keys of its own");
        assert_eq!(opened(&mut one, &back), Ok(content));
    }
}

/// A network that flips a bit, cuts, repeats, omits, exchanges or returns records, at random.
#[test]
fn what_a_network_changes_is_refused() {
    let mut random = fastrand::Rng::with_seed(4);
    for _ in 0..300 {
        let [mut one, mut other] = pair();
        let mut records: Vec<Vec<u8>> = (0..4)
            .map(|_| {
                let content = [random.u8(..); 40];
                sealed(&mut one, &content[..random.usize(..40)])
            })
            .collect();
        let before = records.clone();
        let place = random.usize(..records.len());
        match random.u8(..6) {
            0 => {
                let (byte, bit) = (random.usize(..records[place].len()), random.u8(..8));
                records[place][byte] ^= 1 << bit;
            }
            1 => {
                let length = random.usize(..records[place].len());
                records[place].truncate(length);
            }
            2 => records.insert(place, before[random.usize(..before.len())].clone()),
            3 if place + 1 < records.len() => drop(records.remove(place)),
            4 => records.swap(place, (place + 1) % before.len()),
            _ => records[place] = sealed(&mut other, b"returned"),
        }
        let good = records.iter().zip(&before).take_while(|(now, then)| now == then).count();
        for record in &records[..good] {
            assert!(opened(&mut other, record).is_ok());
        }
        for record in records.iter().skip(good).take(1) {
            assert_eq!(opened(&mut other, record), Err(Tampered));
        }
    }
}

#[test]
fn another_secret_or_context_is_refused() {
    let offer = agreement(SealingSide::Initiator, 1, b"here").offer().unwrap();
    for (secret, context) in [(2, &b"here"[..]), (1, b"there")] {
        let refused = agreement(SealingSide::Responder, secret, context).answer(&offer);
        assert!(refused.is_err());
    }
    // An answer to another offer.
    let mut first = agreement(SealingSide::Initiator, 1, b"here");
    first.offer().unwrap();
    let (answer, _) = agreement(SealingSide::Responder, 1, b"here").answer(&offer).unwrap();
    assert!(first.finish(&answer).is_err());
    // The own offer, returned.
    let mut first = agreement(SealingSide::Initiator, 1, b"here");
    let offer = first.offer().unwrap();
    assert!(first.finish(&offer).is_err());
}

#[test]
fn keys_are_replaced_at_both_ends_together() {
    let [mut one, mut other] = pair();
    (one.sealed, other.opened) = (RECORDS_OF_KEY - 2, RECORDS_OF_KEY - 2);
    let records: Vec<Vec<u8>> = (0..5).map(|_| sealed(&mut one, b"content")).collect();
    for record in &records {
        assert_eq!(opened(&mut other, record), Ok(b"content".to_vec()));
    }
    let [mut one, mut other] = pair();
    one.sealed = RECORDS_OF_KEY - 2;
    let records: Vec<Vec<u8>> = (0..3).map(|_| sealed(&mut one, b"content")).collect();
    assert!(opened(&mut other, &records[0]).is_ok() && opened(&mut other, &records[1]).is_ok());
    assert_eq!(opened(&mut other, &records[2]), Err(Tampered), "the key is another one");
}
