//! Info objects: ordered sets of keys with values (chapter 10 of the MPI standard).

use std::cell::RefCell;
use std::rc::Rc;

use base::{Error, ErrorClass, Result};

/// Keys with values, in the order in which the keys were first set.
///
/// Keys and values are bytes as the program gave them: strings of C need not be UTF-8.
#[derive(Debug, Default)]
pub struct Info {
    entries: RefCell<Vec<InfoEntry>>,
}

#[derive(Clone, Debug)]
struct InfoEntry {
    key: Rc<[u8]>,
    value: Rc<[u8]>,
}

/// The maximum lengths of keys and values that the interface can return, in bytes without a
/// terminator.
#[derive(Clone, Copy, Debug)]
pub struct InfoLimits {
    /// For keys.
    pub key_bytes_max: usize,
    /// For values.
    pub value_bytes_max: usize,
}

/// The contents of `MPI_INFO_ENV` about the start of the program (section 11.2.1 of the
/// standard). Unknown entries are left out.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The name of the program that was started.
    pub command: Option<String>,
    /// Its arguments, separated by spaces.
    pub arguments: Option<String>,
    /// The maximum number of processes that was requested.
    pub processes_max: Option<String>,
    /// The numbers of processes that would have been accepted.
    pub soft: Option<String>,
    /// The machine.
    pub host: Option<String>,
    /// The architecture.
    pub architecture: Option<String>,
    /// The folder in which the program was started.
    pub working_directory: Option<String>,
    /// The file that describes the job.
    pub file: Option<String>,
    /// The requested level of thread support, as a name such as `MPI_THREAD_SINGLE`.
    pub thread_level: Option<String>,
}

impl Info {
    /// An info without keys.
    pub fn new() -> Rc<Self> {
        Rc::default()
    }

    /// Makes the info object for `MPI_INFO_ENV` and `MPI_Info_create_env`.
    pub fn of_environment(environment: &Environment) -> Rc<Self> {
        let facts: [(&str, &Option<String>); 9] = [
            ("command", &environment.command),
            ("argv", &environment.arguments),
            ("maxprocs", &environment.processes_max),
            ("soft", &environment.soft),
            ("host", &environment.host),
            ("arch", &environment.architecture),
            ("wdir", &environment.working_directory),
            ("file", &environment.file),
            ("thread_level", &environment.thread_level),
        ];
        let known = facts.iter().filter_map(|(key, value)| Some((*key, value.as_ref()?)));
        let entries = known.map(|(key, value)| InfoEntry {
            key: key.as_bytes().into(),
            value: value.as_bytes().into(),
        });
        Rc::new(Self { entries: RefCell::new(entries.collect()) })
    }

    /// Sets the value of `key`, and replaces the value that it may have.
    ///
    /// # Errors
    /// `InfoKey` if the key is empty or too long, `InfoValue` if the value is too long.
    pub fn set(&self, key: &[u8], value: &[u8], limits: InfoLimits) -> Result<()> {
        check_key(key, limits)?;
        if value.len() > limits.value_bytes_max {
            let (length, most) = (value.len(), limits.value_bytes_max);
            return Err(Error::new(
                ErrorClass::InfoValue,
                format!(
                    "the value of the key \"{}\" has {length} bytes, at most {most} are allowed",
                    printable(key)
                ),
            ));
        }
        let mut entries = self.entries.borrow_mut();
        match entries.iter_mut().find(|entry| *entry.key == *key) {
            Some(entry) => entry.value = value.into(),
            None => entries.push(InfoEntry { key: key.into(), value: value.into() }),
        }
        Ok(())
    }

    /// Removes `key` and its value.
    ///
    /// # Errors
    /// `InfoKey` if the key is empty or too long, `InfoNokey` if it is not set.
    pub fn delete(&self, key: &[u8], limits: InfoLimits) -> Result<()> {
        check_key(key, limits)?;
        let mut entries = self.entries.borrow_mut();
        let Some(position) = entries.iter().position(|entry| *entry.key == *key) else {
            let sentence = format!("the key \"{}\" is not set in this info", printable(key));
            return Err(Error::new(ErrorClass::InfoNokey, sentence));
        };
        entries.remove(position);
        Ok(())
    }

    /// Returns the value of `key`, if it is set.
    ///
    /// # Errors
    /// `InfoKey` if the key is empty or too long.
    pub fn value(&self, key: &[u8], limits: InfoLimits) -> Result<Option<Rc<[u8]>>> {
        check_key(key, limits)?;
        Ok(self.hint(key))
    }

    /// Returns the value of a key that the library itself looks up.
    pub fn hint(&self, key: &[u8]) -> Option<Rc<[u8]>> {
        let entries = self.entries.borrow();
        entries.iter().find(|entry| *entry.key == *key).map(|entry| Rc::clone(&entry.value))
    }

    /// The number of keys that are set.
    pub fn key_count(&self) -> usize {
        self.entries.borrow().len()
    }

    /// Returns the key at `position`, counted from 0 in the order of setting.
    ///
    /// # Errors
    /// `InfoKey` if there are not that many keys, as in other implementations; the standard
    /// specifies no class.
    pub fn key_at(&self, position: i32) -> Result<Rc<[u8]>> {
        let entries = self.entries.borrow();
        let entry = usize::try_from(position).ok().and_then(|position| entries.get(position));
        entry.map(|entry| Rc::clone(&entry.key)).ok_or_else(|| {
            let count = entries.len();
            let sentence = format!("there is no key number {position} among {count} keys");
            Error::new(ErrorClass::InfoKey, sentence)
        })
    }

    /// Copies those keys of `other`, with their values, that `accepts` accepts.
    pub(crate) fn take_over(&self, other: &Self, accepts: impl Fn(&[u8], &[u8]) -> bool) {
        let others = other.entries.borrow().clone();
        let mut entries = self.entries.borrow_mut();
        for new in others.into_iter().filter(|entry| accepts(&entry.key, &entry.value)) {
            match entries.iter_mut().find(|entry| entry.key == new.key) {
                Some(entry) => entry.value = new.value,
                None => entries.push(new),
            }
        }
    }

    /// Returns a copy with all keys and values, in their order.
    pub fn duplicate(&self) -> Rc<Self> {
        Rc::new(Self { entries: self.entries.clone() })
    }
}

fn check_key(key: &[u8], limits: InfoLimits) -> Result<()> {
    if key.is_empty() {
        return Err(Error::new(ErrorClass::InfoKey, "the key is empty"));
    }
    if key.len() > limits.key_bytes_max {
        let (length, most) = (key.len(), limits.key_bytes_max);
        let sentence = format!("the key has {length} bytes, at most {most} are allowed");
        return Err(Error::new(ErrorClass::InfoKey, sentence));
    }
    Ok(())
}

fn printable(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: InfoLimits = InfoLimits { key_bytes_max: 8, value_bytes_max: 16 };

    #[derive(Clone, Debug)]
    enum ParseStep {
        Set(u8, Vec<u8>),
        Delete(u8),
    }

    fn step() -> impl Strategy<Value = ParseStep> {
        prop_oneof![
            (0..5_u8, proptest::collection::vec(any::<u8>(), 0..4))
                .prop_map(|(key, value)| ParseStep::Set(key, value)),
            (0..5_u8).prop_map(ParseStep::Delete),
        ]
    }

    proptest! {
        #[test]
        fn behaves_as_an_ordered_list(steps in proptest::collection::vec(step(), 0..40)) {
            let info = Info::new();
            let mut expected: Vec<(u8, Vec<u8>)> = Vec::new();
            for step in steps {
                match step {
                    ParseStep::Set(key, value) => {
                        info.set(&[key], &value, LIMITS).unwrap();
                        match expected.iter_mut().find(|entry| entry.0 == key) {
                            Some(entry) => entry.1 = value,
                            None => expected.push((key, value)),
                        }
                    }
                    ParseStep::Delete(key) => {
                        let known = expected.iter().position(|entry| entry.0 == key);
                        prop_assert_eq!(info.delete(&[key], LIMITS).is_ok(), known.is_some());
                        if let Some(position) = known {
                            expected.remove(position);
                        }
                    }
                }
            }
            let copy = info.duplicate();
            info.set(b"later", b"", LIMITS).unwrap();
            prop_assert_eq!(copy.key_count(), expected.len());
            for (position, (key, value)) in (0..).zip(&expected) {
                prop_assert_eq!(&*copy.key_at(position).unwrap(), &[*key][..]);
                let found = copy.value(&[*key], LIMITS).unwrap();
                prop_assert_eq!(found.as_deref(), Some(&value[..]));
            }
        }
    }

    #[test]
    fn limits_and_missing_keys_are_explained() {
        let info = Info::new();
        let long = info.set(b"123456789", b"", LIMITS).unwrap_err();
        assert_eq!(long.class, ErrorClass::InfoKey);
        assert!(long.detail.contains('9') && long.detail.contains('8'), "{long}");
        assert_eq!(info.set(b"", b"", LIMITS).unwrap_err().class, ErrorClass::InfoKey);
        let long = info.set(b"key", &[b'x'; 17], LIMITS).unwrap_err();
        assert_eq!(long.class, ErrorClass::InfoValue);
        assert_eq!(info.delete(b"key", LIMITS).unwrap_err().class, ErrorClass::InfoNokey);
        assert!(info.key_at(0).is_err() && info.key_at(-1).is_err());
        assert_eq!(info.value(b"key", LIMITS), Ok(None));
    }

    #[test]
    fn the_environment_names_what_is_known() {
        let environment = Environment {
            command: Some("ring".into()),
            thread_level: Some("MPI_THREAD_SINGLE".into()),
            ..Environment::default()
        };
        let info = Info::of_environment(&environment);
        assert_eq!(info.key_count(), 2);
        assert_eq!(info.hint(b"command").as_deref(), Some(&b"ring"[..]));
        assert_eq!(info.hint(b"thread_level").as_deref(), Some(&b"MPI_THREAD_SINGLE"[..]));
    }
}
