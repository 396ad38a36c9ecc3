//! The user's choices in the words of `--map-by`, `--bind-to` and `--rank-by`.

use topology::{DeviceKind, Kind};

use super::Needs;

/// How the cpusets of the processes of a machine are chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Which places there are, and in which order.
    pub mapping: ProcessMapping,
    /// How much of the machine belongs to a place.
    pub bind: Bind,
    /// Which process gets which place.
    pub ranking: Ranking,
    /// How many cores each process gets.
    pub cores_each: CoresEach,
    /// What the processes need; if set, nothing else applies.
    pub needs: Option<Needs>,
    /// Whether more processes may be bound to some hardware threads than there are threads.
    pub overload: Overload,
    /// Whether more processes on a machine than hardware threads are refused.
    pub oversubscription: Oversubscription,
    /// Whether each process sees only the GPU near which it is placed.
    pub shows_own_gpu: bool,
}

/// Whether a machine may run more processes than it has hardware threads for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Oversubscription {
    /// Allowed, unless the user forbids it.
    #[default]
    Allowed,
    /// Refused.
    Refused,
}

/// The options from which a policy is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyOption {
    /// `--map-by`.
    MapBy,
    /// `--bind-to`.
    BindTo,
    /// `--rank-by`.
    RankBy,
    /// `--needs`.
    Needs,
}

/// Which options allow to bind more processes to some hardware threads than there are threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overload {
    /// `--map-by` allows it.
    pub by_mapping: bool,
    /// `--bind-to` allows it.
    pub by_binding: bool,
}

/// The number of cores that each process gets, by option; 0: not configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoresEach {
    /// `--map-by` with `PE=N`.
    pub by_mapping: u32,
    /// `--bind-to core:N`.
    pub by_binding: u32,
}

impl CoresEach {
    /// Returns the number of cores; 0: not configured.
    pub fn number(self) -> u32 {
        self.by_mapping.max(self.by_binding)
    }
}

/// Which process gets which place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ranking {
    /// In the order of the mapping.
    #[default]
    AsMapped,
    /// From left to right.
    LeftToRight,
    /// One process on each object of a kind in turn.
    InTurn(Kind),
}

/// The places of processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProcessMapping {
    /// From left to right, evenly.
    #[default]
    Slots,
    /// Level by level; the first level changes fastest.
    Levels(Vec<Kind>),
    /// This many processes on each object of a kind.
    EachOf(u32, Kind),
}

/// What a process is bound to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bind {
    /// To its share: the cores divided by the number of processes.
    #[default]
    Share,
    /// To nothing: it may run wherever the machine allows.
    Nothing,
    /// To the object of a kind that contains its place, or to one inside its place.
    To(Kind),
}

impl ProcessMapping {
    /// Returns how many processes in turn are placed near each GPU, if they are placed near GPUs.
    pub(crate) fn gpus(&self) -> Option<u32> {
        match self {
            Self::Levels(kinds) if kinds[..] == [GPU] => Some(1),
            Self::EachOf(number, GPU) => Some(*number),
            Self::Slots | Self::Levels(_) | Self::EachOf(..) => None,
        }
    }
}

/// The words for levels. Messages use the first word of each kind.
const WORDS: [(&str, Kind); 18] = [
    ("machine", Kind::Machine),
    ("board", Kind::Machine),
    ("package", Kind::Package),
    ("socket", Kind::Package),
    ("die", Kind::Die),
    ("numa", Kind::NumaNode),
    ("group", Kind::Group),
    ("l4cache", Kind::Cache(4)),
    ("l3cache", Kind::Cache(3)),
    ("l3", Kind::Cache(3)),
    ("l2cache", Kind::Cache(2)),
    ("l2", Kind::Cache(2)),
    ("l1cache", Kind::Cache(1)),
    ("l1", Kind::Cache(1)),
    ("core", Kind::Core),
    ("hwthread", Kind::Thread),
    ("thread", Kind::Thread),
    ("gpu", GPU),
];

/// The level of processors for graphics or computing. It is one of places only.
pub(super) const GPU: Kind = Kind::Device(DeviceKind::Gpu);

/// Returns the word for a kind; empty if it has none.
pub(super) fn word(kind: Kind) -> &'static str {
    WORDS.iter().find(|(_, known)| *known == kind).map_or("", |(word, _)| word)
}

/// Returns the kind that a word names.
fn level(word: &str) -> Option<Kind> {
    WORDS.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind)
}

/// Returns a list of the known words.
fn levels() -> String {
    WORDS.map(|(word, _)| word).join(", ")
}

/// The part of a mapping that determines the order of hosts and the number of processes on each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostOrder {
    /// Whether the hosts get one process each in turn.
    pub in_turn: bool,
    /// The number of processes on each host.
    pub per_host: Option<u32>,
    /// Whether more processes than slots are allowed.
    pub oversubscribe: bool,
}

impl Policy {
    /// Reads the words of an option, which replace earlier ones of that option. Returns what they
    /// say about hosts.
    ///
    /// # Errors
    /// A message for users: what is not understood, and what is allowed.
    pub fn set(&mut self, option: PolicyOption, words: &str) -> Result<HostOrder, String> {
        let mut hosts = HostOrder::default();
        match option {
            PolicyOption::MapBy => hosts = self.map_by(words)?,
            PolicyOption::BindTo => self.bind_to(words)?,
            PolicyOption::RankBy => self.rank_by(words)?,
            PolicyOption::Needs => self.needs = Some(Needs::parse(words)?),
        }
        let CoresEach { by_mapping, by_binding } = self.cores_each;
        if by_mapping != by_binding && by_mapping > 0 && by_binding > 0 {
            return Err(format!(
                "--map-by with PE={by_mapping} and --bind-to core:{by_binding} give each process \
                 different numbers of cores; leave out one of them"
            ));
        }
        Ok(hosts)
    }

    /// Refuses more processes on a machine than it has hardware threads for them, if the user
    /// requested that.
    ///
    /// # Errors
    /// A message for users.
    pub(crate) fn check_oversubscription(
        &self,
        processes: usize,
        threads: usize,
    ) -> Result<(), String> {
        if self.oversubscription == Oversubscription::Allowed || processes <= threads {
            return Ok(());
        }
        Err(format!(
            "{processes} processes must run on a machine with {threads} usable hardware threads, \
             which nooversubscribe forbids; start fewer processes, name more hosts, or leave out \
             nooversubscribe"
        ))
    }

    /// Whether the places depend on devices.
    pub(crate) fn names_gpus(&self) -> bool {
        let by_ranking = self.ranking == Ranking::InTurn(GPU);
        by_ranking
            || match &self.mapping {
                ProcessMapping::Slots => false,
                ProcessMapping::Levels(kinds) => kinds.contains(&GPU),
                ProcessMapping::EachOf(_, kind) => *kind == GPU,
            }
    }

    /// Returns the number of the GPU of each of so many processes, of `gpus` of a machine in the
    /// order of their PCI locations; none if processes do not have GPUs in turn.
    pub(crate) fn gpus_of(&self, processes: usize, gpus: usize) -> Option<Vec<usize>> {
        let each = self.mapping.gpus().filter(|_| self.ranking == Ranking::AsMapped)? as usize;
        (gpus > 0).then(|| (0..processes).map(|index| index / each % gpus).collect())
    }

    /// Whether more processes may be bound to some hardware threads than there are threads.
    pub(super) fn allows_overload(&self) -> bool {
        self.overload.by_mapping || self.overload.by_binding
    }

    /// Reads the words of `--map-by`, such as `numa`, `ppr:2:package`, `node,socket,core` or
    /// `slot:PE=4`. Returns what they say about hosts.
    ///
    /// # Errors
    /// A message for users: what is not understood, and what is allowed.
    fn map_by(&mut self, words: &str) -> Result<HostOrder, String> {
        let words = words.to_lowercase();
        let mut hosts = HostOrder::default();
        (self.mapping, self.cores_each.by_mapping) = (ProcessMapping::default(), 0);
        (self.overload.by_mapping, self.shows_own_gpu) = (false, false);
        let parts: Vec<&str> = words.split(':').collect();
        let modifiers = match parts[..] {
            ["ppr", number, object, ref modifiers @ ..] => {
                let each = number.parse().ok().filter(|each| *each > 0).ok_or_else(|| {
                    format!("ppr:{number}:{object} needs a number of processes above 0 after ppr:")
                })?;
                match object {
                    "node" | "machine" => hosts.per_host = Some(each),
                    _ => self.mapping = ProcessMapping::EachOf(each, known(object)?),
                }
                modifiers
            }
            [order, ref modifiers @ ..] => {
                self.map_in_order(order, &mut hosts)?;
                modifiers
            }
            [] => &[],
        };
        modifiers.iter().try_for_each(|modifier| self.modify(modifier, &mut hosts))?;
        Ok(hosts)
    }

    fn map_in_order(&mut self, order: &str, hosts: &mut HostOrder) -> Result<(), String> {
        let mut kinds = Vec::new();
        let mut names = order.split(',').map(str::trim).filter(|name| !name.is_empty()).peekable();
        hosts.in_turn = names.peek() == Some(&"node");
        for name in names {
            match name {
                "slot" | "node" => {}
                _ => kinds.push(known(name)?),
            }
        }
        if !kinds.is_empty() {
            self.mapping = ProcessMapping::Levels(kinds);
        }
        Ok(())
    }

    fn modify(&mut self, modifier: &str, hosts: &mut HostOrder) -> Result<(), String> {
        match modifier.split_once('=') {
            Some(("pe", number)) => {
                let each = number.parse().ok().filter(|each| *each > 0);
                self.cores_each.by_mapping = each.ok_or_else(|| {
                    format!("pe={number} needs a number of cores for each process, above 0")
                })?;
            }
            None if modifier == "oversubscribe" => {
                hosts.oversubscribe = true;
                self.overload.by_mapping = true;
                self.oversubscription = Oversubscription::Allowed;
            }
            None if modifier == "nooversubscribe" => {
                self.oversubscription = Oversubscription::Refused;
            }
            None if modifier == "visible" && self.mapping.gpus().is_some() => {
                self.shows_own_gpu = true;
            }
            None if ["span", "hwtcpus", "corecpus", ""].contains(&modifier) => {}
            _ => {
                return Err(format!(
                    "--map-by does not accept \"{modifier}\" after its colon; it accepts PE=N, \
                     oversubscribe, nooversubscribe, span, and visible after gpu"
                ));
            }
        }
        Ok(())
    }

    /// Reads the words of `--bind-to`, such as `core`, `none` or `numa:overload-allowed`.
    ///
    /// # Errors
    /// A message for users.
    fn bind_to(&mut self, words: &str) -> Result<(), String> {
        let words = words.to_lowercase();
        let mut parts = words.split(':');
        (self.overload.by_binding, self.cores_each.by_binding) = (false, 0);
        self.bind = match parts.next().unwrap_or_default() {
            "none" => Bind::Nothing,
            "share" | "default" => Bind::Share,
            "machine" | "board" => Bind::Nothing,
            // MPICH: one hardware thread for each process, in turn.
            "rr" => Bind::To(Kind::Thread),
            "user" => {
                return Err("--bind-to user needs the hardware threads of each process, as in \
                            user:0+1,2+3"
                    .to_owned());
            }
            name => Bind::To(level(name).filter(|kind| *kind != GPU).ok_or_else(|| {
                format!(
                    "--bind-to does not accept \"{name}\"; it accepts none, share, {}",
                    levels()
                )
            })?),
        };
        for modifier in parts {
            match modifier {
                "overload-allowed" => self.overload.by_binding = true,
                "no-overload" | "if-supported" => {}
                // MPICH's syntax: so many cores in a row for each process.
                number if number.parse::<u32>().is_ok() => {
                    let each = number.parse().ok().filter(|each| *each > 0);
                    let each = each.filter(|_| self.bind == Bind::To(Kind::Core));
                    self.cores_each.by_binding = each.ok_or_else(|| {
                        format!(
                            "--bind-to {words}: a number is accepted after core only, as in core:2 \
                             for two cores each"
                        )
                    })?;
                    self.bind = Bind::Share;
                }
                _ => {
                    return Err(format!(
                        "--bind-to does not accept \"{modifier}\" after its colon; it accepts \
                         overload-allowed, no-overload and if-supported"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Reads the words of `--rank-by`: `slot` or `fill` for places from left to right, or a level
    /// whose objects get one process each in turn.
    ///
    /// # Errors
    /// A message for users.
    fn rank_by(&mut self, words: &str) -> Result<(), String> {
        let words = words.to_lowercase();
        let name = words.split(':').next().unwrap_or_default();
        self.ranking = match name {
            "slot" | "fill" => Ranking::LeftToRight,
            // The order of hosts is that of the mapping.
            "node" | "span" => Ranking::AsMapped,
            _ => Ranking::InTurn(level(name).ok_or_else(|| {
                format!(
                    "--rank-by does not accept \"{name}\"; it accepts slot, fill, span, node, {}",
                    levels()
                )
            })?),
        };
        Ok(())
    }
}

fn known(name: &str) -> Result<Kind, String> {
    level(name).ok_or_else(|| {
        format!(
            "--map-by does not accept the level \"{name}\"; it accepts slot, node, {}",
            levels()
        )
    })
}
