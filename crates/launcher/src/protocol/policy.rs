//! Encodes how processes are bound.

use topology::{CpuSet, DeviceKind, Kind};

use super::fields::{Emit, Parse};
use crate::binding::{
    Bind, CoresEach, GroupNeed, NeedKind, Needs, Overload, Oversubscription, Policy,
    ProcessMapping, Ranking,
};

/// The kinds of objects that a policy can name, by their numbers. All other numbers are caches.
const KINDS: [Kind; 8] = [
    Kind::Machine,
    Kind::Package,
    Kind::Die,
    Kind::NumaNode,
    Kind::Group,
    Kind::Core,
    Kind::Thread,
    Kind::Device(DeviceKind::Gpu),
];

/// The number of the cache of level 0.
const FIRST_CACHE: u8 = 16;

/// The needs, by their numbers.
const NEEDS: [NeedKind; 5] = [
    NeedKind::Memory,
    NeedKind::Bandwidth,
    NeedKind::Synchronise,
    NeedKind::Network,
    NeedKind::Cache,
];

pub(super) fn emit(frame: &mut Vec<u8>, policy: &Policy) {
    match &policy.mapping {
        ProcessMapping::Slots => frame.push(0),
        ProcessMapping::Levels(kinds) => {
            frame.push(1);
            frame.list(kinds, |frame, kind| frame.push(number(*kind)));
        }
        ProcessMapping::EachOf(count, kind) => {
            frame.push(2);
            frame.number(*count);
            frame.push(number(*kind));
        }
    }
    match policy.bind {
        Bind::Share => frame.push(0),
        Bind::Nothing => frame.push(1),
        Bind::To(kind) => frame.extend([2, number(kind)]),
    }
    match policy.ranking {
        Ranking::AsMapped => frame.push(0),
        Ranking::LeftToRight => frame.push(1),
        Ranking::InTurn(kind) => frame.extend([2, number(kind)]),
    }
    frame.number(policy.cores_each.by_mapping);
    frame.number(policy.cores_each.by_binding);
    frame.list(policy.needs.as_slice(), |frame, needs| {
        frame.list(&needs.groups, |frame, (ranks, needs)| {
            // An empty set stands for all ranks.
            frame.push(u8::from(!ranks.is_empty()));
            if !ranks.is_empty() {
                frame.threads(ranks);
            }
            frame.list(needs, |frame, need| {
                let number = NEEDS.iter().position(|known| *known == need.kind);
                let number = number.expect("all needs are in the table") as u8;
                frame.extend([number, need.weight]);
                frame.text(need.interface.as_bytes());
            });
        });
    });
    let Overload { by_mapping, by_binding } = policy.overload;
    let refuses = policy.oversubscription == Oversubscription::Refused;
    frame.extend([by_mapping, by_binding, refuses, policy.shows_own_gpu].map(u8::from));
}

pub(super) fn parse(fields: &mut Parse<'_>) -> Option<Policy> {
    let mapping = match fields.byte()? {
        0 => ProcessMapping::Slots,
        1 => ProcessMapping::Levels(fields.list(kind)?),
        2 => ProcessMapping::EachOf(fields.number()?, kind(fields)?),
        _ => return None,
    };
    let bind = match fields.byte()? {
        0 => Bind::Share,
        1 => Bind::Nothing,
        2 => Bind::To(kind(fields)?),
        _ => return None,
    };
    let ranking = match fields.byte()? {
        0 => Ranking::AsMapped,
        1 => Ranking::LeftToRight,
        2 => Ranking::InTurn(kind(fields)?),
        _ => return None,
    };
    Some(Policy {
        mapping,
        bind,
        ranking,
        cores_each: CoresEach { by_mapping: fields.number()?, by_binding: fields.number()? },
        needs: fields.option(|fields| {
            let need = |fields: &mut Parse<'_>| {
                let kind = NEEDS.get(usize::from(fields.byte()?)).copied()?;
                let (weight, interface) = (fields.byte()?, fields.string()?);
                Some(GroupNeed { kind, weight, interface })
            };
            let ranks = |fields: &mut Parse<'_>| match fields.flag()? {
                true => fields.threads(),
                false => Some(CpuSet::default()),
            };
            let groups = fields.list(|fields| Some((ranks(fields)?, fields.list(need)?)))?;
            Some(Needs { groups })
        })?,
        overload: Overload { by_mapping: fields.flag()?, by_binding: fields.flag()? },
        oversubscription: match fields.flag()? {
            true => Oversubscription::Refused,
            false => Oversubscription::Allowed,
        },
        shows_own_gpu: fields.flag()?,
    })
}

fn number(kind: Kind) -> u8 {
    match kind {
        Kind::Cache(level) => FIRST_CACHE.saturating_add(level),
        _ => KINDS.iter().position(|known| *known == kind).unwrap_or_default() as u8,
    }
}

fn kind(fields: &mut Parse<'_>) -> Option<Kind> {
    let number = fields.byte()?;
    match number.checked_sub(FIRST_CACHE) {
        Some(level) => Some(Kind::Cache(level)),
        None => KINDS.get(usize::from(number)).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields;
    use super::*;
    use crate::binding::PolicyOption;

    #[test]
    fn every_policy_arrives() {
        let each = [
            (PolicyOption::MapBy, "slot:pe=2"),
            (PolicyOption::MapBy, "package,die,numa,group,l3,l2,l1,core,hwthread:oversubscribe"),
            (PolicyOption::MapBy, "ppr:3:l4cache:nooversubscribe"),
            (PolicyOption::MapBy, "ppr:2:gpu:visible"),
            (PolicyOption::RankBy, "gpu"),
            (PolicyOption::BindTo, "core:2"),
            (PolicyOption::BindTo, "none"),
            (PolicyOption::BindTo, "numa:overload-allowed"),
            (PolicyOption::BindTo, "machine"),
            (PolicyOption::RankBy, "slot"),
            (PolicyOption::RankBy, "package"),
            (PolicyOption::Needs, "0-7: memory, network; 0-3: sync; 4: bandwidth"),
            (PolicyOption::Needs, "cache:3, memory:2, near=ib0:7"),
        ];
        let mut policy = Policy::default();
        for (option, words) in each {
            policy.set(option, words).unwrap();
            let mut frame = vec![0];
            emit(&mut frame, &policy);
            assert_eq!(fields::parse(&frame, |_, fields| parse(fields)), Some(policy.clone()));
            for length in 1..frame.len() {
                assert_eq!(fields::parse(&frame[..length], |_, fields| parse(fields)), None);
            }
        }
    }
}
