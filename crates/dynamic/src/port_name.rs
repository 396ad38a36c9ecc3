//! The name of a port: all that another job needs to connect to it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use base::{Error, ErrorClass};
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// The key that a connecting process must prove to have.
pub(crate) type PortKey = [u8; 16];

/// What an endpoint and those that connect to it have in common beside the URI.
pub struct PortSecret {
    /// The content of a file, for example, for processes that are not given the keys of each
    /// other's ports.
    bytes: Option<Vec<u8>>,
    /// Whether all that leaves the machine is encrypted.
    is_encrypted: bool,
}

impl PortSecret {
    /// Makes a secret of these bytes, which must be hard to guess. Without bytes URIs contain keys.
    pub fn new(bytes: Option<Vec<u8>>, is_encrypted: bool) -> Self {
        Self { bytes, is_encrypted }
    }

    /// Whether all that leaves the machine is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Returns the key of the port whose URI contains this random number; `None` if URIs contain
    /// keys.
    pub(crate) fn key_for(&self, number: &PortKey) -> Option<PortKey> {
        let bytes = self.bytes.as_ref()?;
        let mut mac = Hmac::<Sha256>::new_from_slice(bytes).expect("keys of any length are taken");
        mac.update(b"key of the port with this number");
        mac.update(number);
        let digest = mac.finalize().into_bytes();
        let mut key = PortKey::default();
        key.copy_from_slice(&digest[..size_of::<PortKey>()]);
        Some(key)
    }
}

impl fmt::Debug for PortSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PortSecret")
    }
}

/// The name of a port, which programs pass to other jobs as text.
///
/// The text contains the key of the port: a process that can read it can connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortName {
    /// The key of the port.
    pub key: PortKey,
    /// The number of the TCP port.
    pub port: u16,
    /// The addresses of the machine, in the order in which they are tried.
    pub addresses: Vec<IpAddr>,
}

/// The beginning of all port names of this format.
const FORMAT: &str = "combray-port-1";

/// The beginning of the URIs of endpoints.
const SCHEME: &str = "combray://";

/// Stands before the key, or its mark, in the URI of an endpoint that encrypts.
const ENCRYPTED_MARK: char = '+';

/// Stands before a number that is not the key of a port: the key is computed from it.
const NUMBER_MARK: char = '@';

/// The number of characters of a port name, at most: `MPI_MAX_PORT_NAME` without the zero byte of
/// C, in the binary interface with the shortest names.
const LENGTH_MAX: usize = 255;

impl PortName {
    /// Makes the name of a port; addresses that do not fit into a port name are left out.
    pub fn new(key: PortKey, port: u16, addresses: &[IpAddr]) -> Self {
        let mut name = Self { key, port, addresses: Vec::new() };
        for address in addresses {
            name.addresses.push(*address);
            if name.to_string().len() > LENGTH_MAX {
                name.addresses.pop();
            }
        }
        name
    }

    /// Returns the name in the form of a URI, which endpoints have. If the key is computed from a
    /// `number`, the URI contains that in place of the key. It shows whether the endpoint encrypts.
    pub fn to_uri(&self, number: Option<PortKey>, is_encrypted: bool) -> String {
        let shown = Self { key: number.unwrap_or(self.key), ..self.clone() };
        let mut scheme = SCHEME.to_owned();
        scheme.extend(is_encrypted.then_some(ENCRYPTED_MARK));
        scheme.extend(number.map(|_| NUMBER_MARK));
        shown.to_string().replacen(&format!("{FORMAT}/"), &scheme, 1)
    }

    /// Parses a URI that [`to_uri`](Self::to_uri) returned; also returns whether its endpoint
    /// encrypts.
    ///
    /// # Errors
    /// `Port` if it is not the URI of an endpoint, or has no key and there is no secret.
    pub fn from_uri(uri: &str, secret: Option<&PortSecret>) -> Result<(Self, bool), Error> {
        let rest = uri.strip_prefix(SCHEME).unwrap_or_default();
        let encrypted = rest.strip_prefix(ENCRYPTED_MARK);
        let rest = encrypted.unwrap_or(rest);
        let without_key = rest.strip_prefix(NUMBER_MARK);
        let rest = without_key.unwrap_or(rest);
        let mut name = parse(&format!("{FORMAT}/{rest}")).ok_or_else(|| {
            let detail = "this is not the URI of an endpoint of this version of Combray, which begins with \
                          \"combray://\": pass the whole text of combray_endpoint_uri, unchanged";
            Error::new(ErrorClass::Port, detail)
        })?;
        if without_key.is_some() {
            let key = secret.and_then(|secret| secret.key_for(&name.key));
            name.key = key.ok_or_else(|| {
                let detail = "this URI contains no key: open both endpoints with the option \
                              \"key=FILE\" and files of equal content";
                Error::new(ErrorClass::Port, detail)
            })?;
        }
        Ok((name, encrypted.is_some()))
    }

    /// Returns the addresses to which a process connects, in the order in which it tries them: a
    /// process of the port's machine may reach none but the loopback address.
    pub fn places(&self) -> Vec<SocketAddr> {
        let near = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let all = self.addresses.iter().copied().chain([near]);
        all.map(|address| SocketAddr::new(address, self.port)).collect()
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = u128::from_be_bytes(self.key);
        write!(f, "{FORMAT}/{key:032x}/{}", self.port)?;
        self.addresses.iter().try_for_each(|address| write!(f, "/{address}"))
    }
}

impl FromStr for PortName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).ok_or_else(|| {
            // What follows contains the key.
            let shown: String = text.chars().take(FORMAT.len()).collect();
            let detail = format!(
                "the port name that begins with \"{shown}\" is not one that MPI_Open_port of this version of \
                 Combray has returned: pass the whole name, unchanged"
            );
            Error::new(ErrorClass::Port, detail)
        })
    }
}

fn parse(text: &str) -> Option<PortName> {
    if text.len() > LENGTH_MAX {
        return None;
    }
    let mut fields = text.split('/');
    if fields.next()? != FORMAT {
        return None;
    }
    let is_key = |digits: &&str| digits.len() == 32 && !digits.starts_with('+');
    let digits = fields.next().filter(is_key)?;
    let key = u128::from_str_radix(digits, 16).ok()?.to_be_bytes();
    let port = fields.next()?.parse().ok().filter(|port| *port != 0)?;
    let addresses = fields.map(|address| address.parse().ok()).collect::<Option<_>>()?;
    Some(PortName { key, port, addresses })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(all: &[&str]) -> Vec<IpAddr> {
        all.iter().map(|address| address.parse().unwrap()).collect()
    }

    #[test]
    fn a_name_survives_its_text() {
        let all = addresses(&["10.0.0.1", "fd00::1:2"]);
        let name = PortName::new([7; 16], 4711, &all);
        assert_eq!(name.to_string().parse(), Ok(name.clone()));
        for is_encrypted in [false, true] {
            let uri = name.to_uri(None, is_encrypted);
            assert_eq!(PortName::from_uri(&uri, None), Ok((name.clone(), is_encrypted)));
        }
        assert!(PortName::from_uri(&name.to_string(), None).is_err());
        let places: Vec<String> = name.places().iter().map(SocketAddr::to_string).collect();
        assert_eq!(places, ["10.0.0.1:4711", "[fd00::1:2]:4711", "127.0.0.1:4711"]);
    }

    #[test]
    fn a_uri_without_a_key_needs_the_secret() {
        let [secret, other] =
            ["a secret", "another"].map(|text| PortSecret::new(Some(text.into()), false));
        let (number, all) = ([9; 16], addresses(&["10.0.0.1"]));
        let name = PortName::new(secret.key_for(&number).unwrap(), 4711, &all);
        let sealed = name.to_uri(Some(number), true);
        assert_eq!(PortName::from_uri(&sealed, Some(&secret)), Ok((name.clone(), true)));
        let uri = name.to_uri(Some(number), false);
        assert!(!uri.contains(&format!("{:032x}", u128::from_be_bytes(name.key))));
        assert_eq!(PortName::from_uri(&uri, Some(&secret)), Ok((name.clone(), false)));
        assert_ne!(PortName::from_uri(&uri, Some(&other)).unwrap().0.key, name.key);
        let error = PortName::from_uri(&uri, None).unwrap_err();
        assert!(error.detail.contains("key=FILE"), "{error}");
        let encrypted = PortSecret::new(None, true);
        assert_eq!(PortName::from_uri(&uri, Some(&encrypted)), Err(error), "it has no bytes");
        // A port with a key of its own can be reached by those that have a secret, too.
        let with_key = name.to_uri(None, false);
        assert_eq!(PortName::from_uri(&with_key, Some(&secret)), Ok((name, false)));
        assert_ne!(secret.key_for(&number), secret.key_for(&[8; 16]));
    }

    #[test]
    fn addresses_that_do_not_fit_are_left_out() {
        let all = addresses(&["2001:db8:1111:2222:3333:4444:5555:6666"; 20]);
        let name = PortName::new([0xff; 16], 65535, &all);
        let text = name.to_string();
        assert!(text.len() <= LENGTH_MAX && name.addresses.len() >= 4);
        assert_eq!(text.parse(), Ok(name));
    }

    #[test]
    fn other_texts_are_refused() {
        let name = PortName::new([7; 16], 4711, &addresses(&["10.0.0.1"])).to_string();
        let wrong = [
            String::new(),
            name.replace("port-1", "port-2"),
            name[..name.len() - 3].to_owned(),
            name[..30].to_owned(),
            name.replace("4711", "0"),
            name.replace("4711", "70000"),
            format!("{name}/"),
            format!("{name}{}", "/10.0.0.1".repeat(30)),
            name.replacen("07", "+7", 1),
        ];
        for text in wrong {
            let error = text.parse::<PortName>().map(|name| name.to_string());
            assert_eq!(error.map_err(|error| error.class), Err(ErrorClass::Port), "{text}");
        }
    }
}
