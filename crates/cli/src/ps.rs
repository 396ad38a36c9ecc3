//! `combray ps`: the jobs of this machine, and what the ranks of one do.

use launcher::jobs;

/// What is asked for.
#[derive(clap::Args)]
pub struct PsOptions {
    /// The job, by the process of its launcher; the only one that runs, if there is one only
    job: Option<u32>,
    /// Prints JSON: one line
    #[arg(long)]
    json: bool,
}

/// Tells; returns the exit code, 1 where there is no job.
///
/// # Errors
/// A text for people: there is no such job, or it does not answer.
pub fn run(options: &PsOptions) -> Result<i32, String> {
    let running = match options.job {
        Some(_) => Vec::new(),
        None => jobs::running(),
    };
    let job = match (options.job, running.as_slice()) {
        (Some(job), _) => job,
        (None, [only]) => only.job,
        (None, []) => {
            match options.json {
                true => println!("[]"),
                false => eprintln!("combray: no job of this user runs on this machine"),
            }
            return Ok(1);
        }
        (None, _) => return list(&running, options.json).map(|()| 0),
    };
    let report = jobs::ask(job)?;
    match options.json {
        true => println!("{}", text(&report)?),
        false => print!("{}", jobs::table(&report)),
    }
    Ok(0)
}

fn list(running: &[jobs::JobSummary], is_json: bool) -> Result<(), String> {
    if is_json {
        println!("{}", text(&running)?);
        return Ok(());
    }
    println!("{:>8}  {:>6}  {:>6}  {:>8}  program", "job", "ranks", "hosts", "seconds");
    for jobs::JobSummary { job, program, ranks, hosts, seconds } in running {
        println!("{job:>8}  {ranks:>6}  {hosts:>6}  {seconds:>8.0}  {program}");
    }
    Ok(())
}

fn text(value: &impl serde::Serialize) -> Result<String, String> {
    serde_json::to_string(value).map_err(|error| error.to_string())
}
