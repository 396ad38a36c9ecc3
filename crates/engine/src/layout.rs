//! The memory layout by which debuggers find the queues of an engine in a stopped process.

use std::mem::offset_of;

use memory::{Buffer, VectorWords};
use message_queues::EngineLayout;

use crate::engine::{Context, Engine};
use crate::list::Links;
use crate::matching::Matching;
use crate::request::Request;
use crate::requests::Requests;
use crate::slab::Slab;
use crate::unexpected::Unexpected;

impl Engine {
    /// Returns the offsets, which are valid for every engine of this program.
    pub fn layout() -> EngineLayout {
        let requests = offset_of!(Engine, requests) + Requests::PLACES;
        let request_words = VectorWords::of::<Request>();
        let contexts = offset_of!(Engine, contexts) + Slab::<Context>::PLACES;
        let context_words = Slab::<Context>::words();
        let messages = offset_of!(Engine, unexpected) + Slab::<Unexpected>::PLACES;
        let message_words = Slab::<Unexpected>::words();
        let buffer = offset_of!(Request, buffer);
        let message = Slab::<Unexpected>::VALUE;
        let [requests_at, request_count, contexts_at, context_count, messages_at, message_count] =
            [
                requests + request_words.address,
                requests + request_words.length,
                contexts + context_words.address,
                contexts + context_words.length,
                messages + message_words.address,
                messages + message_words.length,
            ]
            .map(|offset| offset as u64);
        EngineLayout {
            requests: requests_at,
            request_count,
            request_bytes: size_of::<Request>() as u64,
            state: Request::STATE as u64,
            order: Request::ORDER as u64,
            message_length: Request::MESSAGE_LENGTH as u64,
            source: offset_of!(Request, source) as u64,
            tag: offset_of!(Request, tag) as u64,
            context: offset_of!(Request, context) as u64,
            gate: offset_of!(Request, gate) as u64,
            buffer: (buffer + Buffer::LAYOUT.base) as u64,
            buffer_low: (buffer + Buffer::LAYOUT.low) as u64,
            buffer_high: (buffer + Buffer::LAYOUT.high) as u64,
            rare: (buffer + Buffer::LAYOUT.rare) as u64,
            rare_length: Buffer::LAYOUT.rare_length as u64,
            contexts: contexts_at,
            context_count,
            context_bytes: Slab::<Context>::PLACE_BYTES as u64,
            first_message: (Slab::<Context>::VALUE
                + offset_of!(Context, matching)
                + Matching::FIRST_ARRIVED) as u64,
            messages: messages_at,
            message_count,
            message_bytes: Slab::<Unexpected>::PLACE_BYTES as u64,
            next_message: (message + offset_of!(Unexpected, arrival) + offset_of!(Links, next))
                as u64,
            message_source: (message + offset_of!(Unexpected, source)) as u64,
            message_tag: (message + offset_of!(Unexpected, tag)) as u64,
            message_data_length: (message + offset_of!(Unexpected, length)) as u64,
        }
    }
}
