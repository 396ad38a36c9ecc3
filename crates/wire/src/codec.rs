//! The encoding of messages that the library sends to itself: fields one after another, numbers in
//! little-endian order.

use base::{ErrorClass, RegionToken};

/// A value in a message.
pub trait Codec: Sized {
    /// Appends the value to a message.
    fn write(&self, message: &mut Vec<u8>);

    /// Takes the value off the front of a message. `None` if the message is too short, or if no
    /// value is written in this way.
    fn read(message: &mut &[u8]) -> Option<Self>;

    /// Returns a message that consists of the value.
    fn to_bytes(&self) -> Vec<u8> {
        let mut message = Vec::new();
        self.write(&mut message);
        message
    }

    /// Reads a message that consists of one value.
    fn from_bytes(mut message: &[u8]) -> Option<Self> {
        Self::read(&mut message).filter(|_| message.is_empty())
    }
}

/// Implements [`Codec`] for a struct whose fields have it: the fields in the given order.
#[macro_export]
macro_rules! codec {
    ($type:ident { $($field:ident),+ $(,)? }) => {
        impl $crate::Codec for $type {
            fn write(&self, message: &mut Vec<u8>) {
                $($crate::Codec::write(&self.$field, message);)+
            }

            fn read(message: &mut &[u8]) -> Option<Self> {
                Some(Self { $($field: $crate::Codec::read(message)?),+ })
            }
        }
    };
}

macro_rules! number {
    ($($type:ty as $sent:ty),+) => {
        $(impl Codec for $type {
            #[inline]
            fn write(&self, message: &mut Vec<u8>) {
                message.extend_from_slice(&(*self as $sent).to_le_bytes());
            }

            #[inline]
            fn read(message: &mut &[u8]) -> Option<Self> {
                let (bytes, rest) = message.split_first_chunk()?;
                *message = rest;
                <$sent>::from_le_bytes(*bytes).try_into().ok()
            }
        })+
    };
}

number!(u8 as u8, u16 as u16, u32 as u32, u64 as u64, i32 as i32, i64 as i64);
number!(usize as u64, isize as i64);

impl Codec for bool {
    fn write(&self, message: &mut Vec<u8>) {
        message.push(u8::from(*self));
    }

    fn read(message: &mut &[u8]) -> Option<Self> {
        match u8::read(message)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

codec!(RegionToken { place, secret });

/// The place of the class in the list of all. A class that the program added is read as `Other`.
impl Codec for ErrorClass {
    fn write(&self, message: &mut Vec<u8>) {
        let place = ErrorClass::ALL.iter().position(|one| one == self);
        (place.unwrap_or(ErrorClass::ALL.len()) as u16).write(message);
    }

    fn read(message: &mut &[u8]) -> Option<Self> {
        let place = usize::from(u16::read(message)?);
        Some(ErrorClass::ALL.get(place).copied().unwrap_or(ErrorClass::Other))
    }
}

/// The length with 32 bits, then the text in UTF-8.
impl Codec for String {
    fn write(&self, message: &mut Vec<u8>) {
        (self.len() as u32).write(message);
        message.extend_from_slice(self.as_bytes());
    }

    fn read(message: &mut &[u8]) -> Option<Self> {
        let length = u32::read(message)? as usize;
        let (text, rest) = message.split_at_checked(length)?;
        *message = rest;
        String::from_utf8(text.to_vec()).ok()
    }
}

/// The number of values with 32 bits, then the values.
impl<T: Codec> Codec for Vec<T> {
    fn write(&self, message: &mut Vec<u8>) {
        (self.len() as u32).write(message);
        self.iter().for_each(|value| value.write(message));
    }

    fn read(message: &mut &[u8]) -> Option<Self> {
        let count = u32::read(message)?;
        // Grows with what is there, and not to the number that a peer sent.
        (0..count).map(|_| T::read(message)).collect()
    }
}

impl<A: Codec, B: Codec> Codec for (A, B) {
    fn write(&self, message: &mut Vec<u8>) {
        self.0.write(message);
        self.1.write(message);
    }

    fn read(message: &mut &[u8]) -> Option<Self> {
        Some((A::read(message)?, B::read(message)?))
    }
}

/// A flag, then the value if there is one.
impl<T: Codec> Codec for Option<T> {
    fn write(&self, message: &mut Vec<u8>) {
        self.is_some().write(message);
        self.iter().for_each(|value| value.write(message));
    }

    fn read(message: &mut &[u8]) -> Option<Self> {
        Some(if bool::read(message)? { Some(T::read(message)?) } else { None })
    }
}

impl<T: Codec + Copy + Default, const COUNT: usize> Codec for [T; COUNT] {
    #[inline]
    fn write(&self, message: &mut Vec<u8>) {
        self.iter().for_each(|value| value.write(message));
    }

    #[inline]
    fn read(message: &mut &[u8]) -> Option<Self> {
        let mut values = [T::default(); COUNT];
        for value in &mut values {
            *value = T::read(message)?;
        }
        Some(values)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Sample {
        flag: bool,
        small: [u16; 3],
        signed: isize,
        text: String,
        length: usize,
        perhaps: Option<i64>,
        several: Vec<(u8, String)>,
    }

    codec!(Sample { flag, small, signed, text, length, perhaps, several });

    fn sample() -> impl Strategy<Value = Sample> {
        any::<(bool, [u16; 3], isize, String, usize, Option<i64>, Vec<(u8, String)>)>().prop_map(
            |(flag, small, signed, text, length, perhaps, several)| Sample {
                flag,
                small,
                signed,
                text,
                length,
                perhaps,
                several,
            },
        )
    }

    #[test]
    fn numbers_are_little_endian() {
        assert_eq!(0x0102_u16.to_bytes(), [2, 1]);
        assert_eq!((-2_i32).to_bytes(), [0xfe, 0xff, 0xff, 0xff]);
        assert_eq!(Some(7_u8).to_bytes(), [1, 7]);
        assert_eq!("ab".to_owned().to_bytes(), [2, 0, 0, 0, b'a', b'b']);
        assert_eq!(ErrorClass::from_bytes(&ErrorClass::Io.to_bytes()), Some(ErrorClass::Io));
    }

    proptest! {
        #[test]
        fn only_whole_messages_are_read(sample in sample()) {
            let mut bytes = sample.to_bytes();
            prop_assert_eq!(Sample::from_bytes(&bytes), Some(sample.clone()));
            for length in 0..bytes.len() {
                prop_assert_eq!(Sample::from_bytes(&bytes[..length]), None);
            }
            bytes.push(0);
            prop_assert_eq!(Sample::from_bytes(&bytes), None);
            let mut rest = bytes.as_slice();
            prop_assert_eq!(Sample::read(&mut rest), Some(sample));
            prop_assert_eq!(rest, [0]);
        }

        #[test]
        fn nonsense_is_harmless(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Some(sample) = Sample::from_bytes(&bytes) {
                prop_assert_eq!(sample.to_bytes(), bytes);
            }
        }
    }
}
