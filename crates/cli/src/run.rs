//! `combray run`: from words to a plan.

mod options;

use std::collections::HashMap;
use std::env;
use std::time::Duration;

use launch::{Application, Plan};
use options::{Meaning, OPTIONS, Takes};
use runtime::configuration::distance;
use sys::cores;

/// Runs what `words` ask for and returns the exit code.
pub fn run(words: &[String]) -> Result<i32, String> {
    match parse(words)? {
        Asked::Help => {
            print!("{}", options::help());
            Ok(0)
        }
        Asked::Version => {
            println!("combray {}", env!("CARGO_PKG_VERSION"));
            Ok(0)
        }
        Asked::Job { plan, ignored } => {
            if !ignored.is_empty() {
                eprintln!(
                    "combray: ignored, as it has no meaning here yet: {} (docs/launching.md lists \
                     all options)",
                    ignored.join(", ")
                );
            }
            launch::run(&plan).map_err(|error| error.to_string())
        }
    }
}

/// What a person asked for.
#[derive(Debug)]
enum Asked {
    Help,
    Version,
    Job { plan: Plan, ignored: Vec<String> },
}

fn parse(words: &[String]) -> Result<Asked, String> {
    let mut plan = Plan::default();
    let mut ignored = Vec::new();
    let mut global = HashMap::new();
    let parts: Vec<&[String]> = words.split(|word| word == ":").collect();
    for part in &parts {
        let mut reader = Reader {
            plan: &mut plan,
            ignored: &mut ignored,
            global: &mut global,
            application: Application::default(),
        };
        match reader.read(part)? {
            Some(asked) => return Ok(asked),
            None => {
                let application = reader.application;
                plan.applications.push(application);
            }
        }
    }
    let single = plan.applications.len() == 1;
    for application in &mut plan.applications {
        if application.processes == 0 {
            application.processes = if single { cores::usable() as u32 } else { 1 };
        }
        for (name, value) in &global {
            application.variables.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    Ok(Asked::Job { plan, ignored })
}

/// Reads the part of one program.
struct Reader<'a> {
    plan: &'a mut Plan,
    ignored: &'a mut Vec<String>,
    global: &'a mut HashMap<String, String>,
    application: Application,
}

impl Reader<'_> {
    fn read(&mut self, words: &[String]) -> Result<Option<Asked>, String> {
        let mut rest = words;
        while let Some((word, after)) = rest.split_first() {
            if !word.starts_with('-') || word == "-" {
                self.application.program = word.clone();
                self.application.arguments = after.to_vec();
                return Ok(None);
            }
            let (name, joined) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            let option = options::find(name).ok_or_else(|| unknown(name))?;
            rest = after;
            let mut values: Vec<String> = joined.into_iter().collect();
            let wanted = match option.takes {
                Takes::Nothing => 0,
                Takes::One => 1,
                Takes::Two => 2,
            };
            while values.len() < wanted {
                let (value, after) = rest
                    .split_first()
                    .ok_or_else(|| format!("the option {name} wants {wanted} more word(s)"))?;
                values.push(value.clone());
                rest = after;
            }
            match option.meaning {
                Meaning::Help => return Ok(Some(Asked::Help)),
                Meaning::Version => return Ok(Some(Asked::Version)),
                meaning => self.apply(meaning, name, &values)?,
            }
        }
        Err("no program to run is named; combray run --help tells more".to_owned())
    }

    fn apply(&mut self, meaning: Meaning, name: &str, values: &[String]) -> Result<(), String> {
        let value = values.first().map_or("", String::as_str);
        match meaning {
            Meaning::Processes => {
                let count = value.parse().ok().filter(|count| (1..=4096).contains(count));
                self.application.processes = count.ok_or_else(|| {
                    format!("{name} wants the number of processes, 1 to 4096, and got \"{value}\"")
                })?;
            }
            Meaning::TagOutput => self.plan.tag_output = true,
            Meaning::Timeout => {
                let seconds = value.parse().ok().filter(|s: &f64| s.is_finite() && *s > 0.0);
                let seconds = seconds.ok_or_else(|| {
                    format!("{name} wants a number of seconds above 0, and got \"{value}\"")
                })?;
                self.plan.timeout = Some(Duration::from_secs_f64(seconds));
            }
            Meaning::Variable => {
                let (name, value) = match values {
                    [name, value] => (name.clone(), value.clone()),
                    _ => split_variable(value),
                };
                self.application.variables.insert(name, value);
            }
            Meaning::GlobalVariable => {
                self.global.insert(values[0].clone(), values[1].clone());
            }
            Meaning::VariableList => {
                for name in value.split(',').filter(|name| !name.is_empty()) {
                    self.application.variables.extend([split_variable(name)]);
                }
            }
            Meaning::Folder => self.application.folder = Some(value.into()),
            Meaning::Hosts => check_hosts(name, value)?,
            Meaning::Ignored => self.ignored.push(name.to_owned()),
            Meaning::Accepted | Meaning::Help | Meaning::Version => {}
        }
        Ok(())
    }
}

/// `NAME=value`, or `NAME` with the launcher's own value.
fn split_variable(text: &str) -> (String, String) {
    match text.split_once('=') {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => (text.to_owned(), env::var(text).unwrap_or_default()),
    }
}

/// Only this machine can run processes so far.
fn check_hosts(name: &str, list: &str) -> Result<(), String> {
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let own = own.trim();
    for host in list.split(',') {
        let host = host.split(':').next().unwrap_or_default();
        let short = own.split('.').next().unwrap_or_default();
        if !["localhost", "127.0.0.1", own, short].contains(&host) {
            return Err(format!(
                "{name} names the host {host}, but this version starts processes on this machine \
                 ({own}) only; a launcher that speaks PMI-1 does not help either, as messages do \
                 not leave the machine yet"
            ));
        }
    }
    Ok(())
}

fn unknown(name: &str) -> String {
    let names = OPTIONS.iter().flat_map(|option| option.names);
    let nearest =
        names.min_by_key(|known| distance(known.trim_matches('-'), name.trim_matches('-')));
    format!(
        "combray run has no option {name}; did you mean {}? (combray run --help lists all)",
        nearest.unwrap_or(&"--help")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(line: &str) -> (Plan, Vec<String>) {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match parse(&words).unwrap() {
            Asked::Job { plan, ignored } => (plan, ignored),
            other => panic!("{other:?}"),
        }
    }

    fn error(line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words).unwrap_err()
    }

    #[test]
    fn programs_and_their_arguments() {
        let (plan, _) = plan("-n 2 -x A=1 ./a -n 5 : -np 3 -wdir /tmp ./b");
        let [a, b] = &plan.applications[..] else { panic!("{plan:?}") };
        assert_eq!((a.processes, a.program.as_str()), (2, "./a"));
        assert_eq!(a.arguments, ["-n", "5"]);
        assert_eq!(a.variables["A"], "1");
        assert_eq!((b.processes, b.folder.as_deref()), (3, Some("/tmp".as_ref())));
        assert!(b.variables.is_empty());
    }

    #[test]
    fn spellings_of_other_launchers() {
        let (job, ignored) = plan(
            "--allow-run-as-root --oversubscribe --bind-to none -genv B 2 --mca btl self,sm \
             -hosts localhost --timeout 5 -l -n 4 hostname",
        );
        assert_eq!(job.applications[0].processes, 4);
        assert_eq!(job.applications[0].variables["B"], "2");
        assert!(job.tag_output);
        assert_eq!(job.timeout, Some(Duration::from_secs(5)));
        assert_eq!(ignored, ["--bind-to", "--mca"]);
    }

    #[test]
    fn faults_are_told() {
        assert!(error("-n 0 a").contains("number of processes"));
        assert!(error("-n").contains("wants 1 more"));
        assert!(error("--timout 3 a").contains("did you mean --timeout"));
        assert!(error("-n 2").contains("no program"));
        assert!(error("-host elsewhere a").contains("elsewhere"));
    }
}
