//! What goes wrong in a world, and what that means for the job.

use std::collections::VecDeque;

use launcher::job::JobEvent;
use sys::process::{End, signal};

use super::machine::MachineHealth;
use super::rank::EndCause;
use super::setting::{HOST_TIMEOUT, JobFault, SECOND};
use super::world::{EffectScope, JobWorld, TO_AGENT, TO_LAUNCHER, Wake};

impl JobWorld<'_> {
    /// Lets a fault happen.
    pub(super) fn inject(&mut self, fault: JobFault) {
        self.counts.faults += 1;
        match fault {
            JobFault::Kill(rank, number) => self.kill(rank, number),
            JobFault::Stop(rank) => {
                let (host, index) = self.place_of(rank);
                if self.machines[host].has_started {
                    let _ = self.machines[host].ranks[index].signal(signal::SIGSTOP);
                }
            }
            JobFault::KillAgent(host) => {
                let agent = self.machines[host].agent.as_ref();
                if agent.is_some_and(|agent| agent.is_running) {
                    self.lose_ranks(host);
                    self.abandon(host, EndCause::Fault, End::Code(137));
                }
            }
            JobFault::KillCommand(host) => {
                let agent = self.machines[host].agent.as_ref();
                if agent.is_some_and(|agent| agent.is_opened) {
                    self.lose_ranks(host);
                    self.end_command(host, End::Signal(signal::SIGKILL));
                }
            }
            JobFault::LoseMachine(host) => {
                self.lose_ranks(host);
                self.machines[host].health = MachineHealth::Gone;
            }
            JobFault::Freeze(host, time) => {
                let is_frozen_twice = |(_, other): &&(u64, JobFault)| matches!(other, JobFault::Freeze(on, _) if *on == host);
                let count = self.setting.faults.iter().filter(is_frozen_twice).count();
                if time > HOST_TIMEOUT || count > 1 {
                    self.add_effect(vec![1, 2], None, EffectScope::Machine(host));
                    self.cut_off_below(host);
                }
                if self.machines[host].health == MachineHealth::Up {
                    self.machines[host].health = MachineHealth::Frozen(self.now + time);
                }
            }
            JobFault::LoseOrders(host) => self.lose_bytes(host, TO_AGENT),
            JobFault::LoseReports(host) => self.lose_bytes(host, TO_LAUNCHER),
            JobFault::SendGarbage(host) => {
                let agent = self.machines[host].agent.as_ref();
                if agent.is_some_and(|agent| agent.is_running && agent.is_connected) {
                    self.lose_ranks(host);
                    self.send_to_launcher(host, vec![1, 0, 0, 0, 99]);
                }
            }
            JobFault::Signal(number) => {
                // The first SIGQUIT only asks.
                let asks = number == signal::SIGQUIT;
                let noticed = (!asks).then(|| self.now + self.pauses() + SECOND);
                self.add_effect(vec![128 + number], noticed, EffectScope::Job);
                self.inbox.push_back(JobEvent::Signal(number));
            }
            JobFault::EndReader => {
                self.has_reader = false;
                self.add_effect(vec![128 + signal::SIGPIPE], None, EffectScope::Job);
            }
            JobFault::Pause(time) => self.paused_until = self.paused_until.max(self.now + time),
            JobFault::Question => self.inbox.push_back(JobEvent::ReportRequest(1)),
        }
    }

    fn kill(&mut self, rank: u32, number: i32) {
        let (host, index) = self.place_of(rank);
        let machine = &mut self.machines[host];
        match machine.health {
            MachineHealth::Gone => return,
            MachineHealth::Frozen(until) if self.now < until => {
                return self.wake(until, Wake::Fault(JobFault::Kill(rank, number)));
            }
            _ => {}
        }
        if machine.has_started && machine.ranks[index].end.is_none() {
            let mut out = VecDeque::new();
            machine.end(index, End::Signal(number), EndCause::Fault, &mut out);
            let noticed = self.now + self.delay(host);
            self.add_effect(vec![128 + number], Some(noticed), EffectScope::Rank);
            self.follow_all(host, out);
        }
    }

    /// Returns the machine of a rank, and its index there.
    fn place_of(&self, rank: u32) -> (usize, usize) {
        let mut index = rank as usize;
        for (host, machine) in self.machines.iter().enumerate() {
            if index < machine.ranks.len() {
                return (host, index);
            }
            index -= machine.ranks.len();
        }
        unreachable!("each rank has a machine")
    }

    /// Records that the job loses the ranks of a machine, if any runs or was not started.
    fn lose_ranks(&mut self, host: usize) {
        let machine = &self.machines[host];
        let agent = machine.agent.as_ref();
        let is_connected =
            agent.is_some_and(|agent| agent.is_connected && agent.loses == [false; 2]);
        let mut all = self.below(host).into_iter().chain([host]);
        let runs = |host: usize| self.machines[host].ranks.iter().any(|rank| rank.end.is_none());
        let is_lost = self.path(host).into_iter().any(|host| {
            let agent = self.machines[host].agent.as_ref();
            agent.is_some_and(|agent| agent.loses != [false; 2])
        });
        // The launcher reaches a host itself which another agent does not reach.
        let is_final =
            agent.is_some_and(|agent| agent.holder.is_none() || agent.forwarded.has_greeted());
        let is_needed = is_connected && is_final && !is_lost && all.any(runs);
        let noticed = is_needed.then(|| self.now + self.delay(host));
        self.add_effect(vec![1, 2], noticed, EffectScope::Machine(host));
        self.cut_off_below(host);
    }

    /// Records that the machines that are reached through this one may be lost with it.
    fn cut_off_below(&mut self, host: usize) {
        let runs = |below: &usize| {
            self.machines[*below].agent.as_ref().is_some_and(|agent| agent.is_running)
        };
        self.counts.inner_faults += u64::from(self.below(host).iter().any(runs));
        for below in self.below(host) {
            self.add_effect(vec![1, 2], None, EffectScope::Machine(below));
        }
    }

    fn lose_bytes(&mut self, host: usize, direction: usize) {
        if let Some(agent) = &mut self.machines[host].agent {
            agent.loses[direction] = true;
        }
        self.add_effect(vec![1, 2], None, EffectScope::Machine(host));
        self.cut_off_below(host);
    }
}
