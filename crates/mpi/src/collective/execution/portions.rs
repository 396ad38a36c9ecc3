//! Portions of an operation: each is carried out for all members by the first member that claims
//! it.

use base::{Error, ErrorClass};
use collectives::{ExposureRole, Local, Round, Transfer};

use super::super::channel::Channel;
use super::exposure::find;
use super::{Execution, board_of};

impl Execution {
    /// Takes the local steps of a round, which may be those of a portion. Returns false if this
    /// process leaves portions to others for now. Not inlined, because the caller runs for all
    /// operations.
    #[inline(never)]
    pub(super) fn carry_out_portion(&mut self, channel: &impl Channel, round: Round<'_>) -> bool {
        let claimed = match (self.turn, round.transfers.first()) {
            (Some(_), Some(Transfer::Claim { .. })) if self.differs => return true,
            (Some(_), Some(Transfer::Claim { .. })) if channel.leaves_portions() => return false,
            (Some(turn), Some(Transfer::Claim { portion })) => {
                if !board_of(channel).claim(turn, *portion) {
                    return true;
                }
                Some(turn)
            }
            _ => None,
        };
        self.take_local_steps(channel, round);
        if let Some(turn) = claimed {
            board_of(channel).end_portion(turn);
        }
        true
    }

    /// Prepares the portions: divides the work, or checks that all members expose buffers of
    /// equal sizes.
    #[cold]
    #[inline(never)]
    pub(super) fn prepare_portions(&mut self, channel: &impl Channel, step: Local) {
        let (board, turn) = (board_of(channel), self.turn.expect("portions are of the board"));
        if step == Local::Divide {
            return board.divide(turn);
        }
        let members = 0..board.members() as u32;
        let lengths = |member: u32| {
            let length = |role| find(board, turn, member, role).map_or(0, |one| one.length());
            [ExposureRole::Input, ExposureRole::Result].map(length)
        };
        let own = lengths(board.own());
        if let Some(other) = members.into_iter().find(|member| lengths(*member) != own) {
            self.differs = true;
            let sentence = format!(
                "the process with rank {other} contributes {} bytes and has room for {}, this \
                 process contributes {} and has room for {}",
                lengths(other)[0],
                lengths(other)[1],
                own[0],
                own[1]
            );
            self.note(Err(Error::new(ErrorClass::Truncate, sentence)));
        }
    }
}
