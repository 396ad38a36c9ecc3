//! Rails that fail, and work again, during a run.

use base::{GateId, RailId};

use crate::network::{RailChange, Route};
use crate::world::World;

impl World {
    /// Occasionally cuts a rail between two processes that have another rail, or reconnects a rail
    /// whose loss both have noticed. Also lets processes notice changes, each at its own time.
    pub(crate) fn change_rails(&mut self) {
        if self.setting.cuts && self.rng.u8(..32) == 0 {
            self.cut_one();
        }
        if self.setting.cuts && self.rng.u8(..32) == 0 {
            self.heal_one();
        }
        let mut unaware = std::mem::take(&mut self.unaware);
        unaware.retain(|&(process, gate, rail, change)| {
            let notices = self.rng.u8(..8) == 0;
            if notices {
                self.moved_at = self.network.now;
                let engine = self.engine(process);
                match change {
                    RailChange::Lost => assert!(engine.lose_rail(gate, rail), "another is left"),
                    RailChange::Restored => assert!(engine.restore_rail(gate, rail), "it was lost"),
                }
            }
            !notices
        });
        self.unaware = unaware;
    }

    /// Reconnects a rail that both drivers have given up.
    fn heal_one(&mut self) {
        let all: Vec<Route> = self.network.all_cut().collect();
        if all.is_empty() {
            return;
        }
        let (one, other, rail) = all[self.rng.usize(..all.len())];
        let sides = [(one.0, other, rail), (other.0, one, rail)];
        let has_noticed = |&(process, gate, rail): &(u32, GateId, RailId)| {
            !self.unaware.contains(&(process, gate, rail, RailChange::Lost))
        };
        if !sides.iter().all(has_noticed) {
            return;
        }
        self.report.healed += 1;
        self.network.heal((one, other, rail));
        let restored = |(process, gate, rail)| (process, gate, rail, RailChange::Restored);
        self.unaware.extend(sides.map(restored));
    }

    fn cut_one(&mut self) {
        let processes = self.setting.processes;
        let (one, other) = (self.rng.u32(..processes), self.rng.u32(..processes));
        let gate = GateId(other);
        let rails = self.engines[one as usize].rails_of(gate);
        let rails_back = self.engines[other as usize].rails_of(GateId(one));
        let whole: Vec<RailId> = rails
            .iter()
            .copied()
            .filter(|&rail| !self.network.is_cut((GateId(one), gate, rail)))
            .filter(|rail| rails_back.contains(rail))
            .collect();
        if one == other || whole.len() < 2 {
            return;
        }
        self.report.cuts += 1;
        let rail = whole[self.rng.usize(..whole.len())];
        self.network.cut((GateId(one), gate, rail));
        self.unaware.push((one, gate, rail, RailChange::Lost));
        self.unaware.push((other, GateId(one), rail, RailChange::Lost));
    }
}
