//! Reads the configuration: the main file, then its drop-ins by name; what comes later wins.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use glob::Pattern;
use mega_core::engine::Interval;
use mega_core::promotion::{self, BuildError, Parameters};
use mega_linux::TrackerKind;
use mega_linux::process::Chosen;
use mega_linux::settings::fault::FaultMode;
use mega_linux::settings::shared_memory::SharedMemory;
use toml::Spanned;
use toml::de::DeValue;

use super::exchange::WrittenExchange;
use super::reader::{self, ConfigError, Source, TableReader};
use super::record::WrittenRecord;
use super::{CALIBRATE_WHEN_IDLE, Config, Metrics, Select, Settings};
use crate::selection::Selection;
use crate::value;

/// The settings that were written; the others are `None`.
#[derive(Clone, Debug, Default)]
struct Overrides {
    policy: Option<String>,
    parameters: Option<Parameters>,
    interval: Option<Interval>,
    cpu_budget: Option<f64>,
    copy_budget: Option<u64>,
    standstill: Option<f64>,
    lock_bound: Option<Duration>,
    coverage: Option<f64>,
    coverage_of: Option<Chosen>,
}

/// A `[[select]]` as it was written, and where.
struct Written {
    name: String,
    selection: Selection,
    overrides: Overrides,
    origin: ConfigError,
}

/// What the files read so far say.
#[derive(Default)]
struct Draft {
    tracker: Option<Option<TrackerKind>>,
    fault: Option<FaultMode>,
    shared_memory: Option<SharedMemory>,
    metrics: Metrics,
    record: WrittenRecord,
    exchange: WrittenExchange,
    status_group: Option<u32>,
    node_features: Option<PathBuf>,
    calibrate_when_idle: Option<Option<Duration>>,
    defaults: Overrides,
    selects: Vec<Written>,
}

/// Reads the configuration at `path` and in `path.d/*.toml`.
///
/// # Errors
/// The first thing wrong: the file, the line, and the nearest known key.
pub(crate) fn load(path: &Path) -> Result<Config, ConfigError> {
    let mut draft = Draft::default();
    for path in files(path)? {
        let text = std::fs::read_to_string(&path).map_err(|error| whole(&path, &error))?;
        draft.read(&Source {
            path: &path,
            text: &text,
        })?;
    }
    draft.finish(path)
}

fn whole(path: &Path, reason: &dyn Display) -> ConfigError {
    ConfigError::File {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

/// The main file, then the drop-ins in the order of their names.
fn files(path: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let mut folder = path.as_os_str().to_owned();
    folder.push(".d");
    let folder = PathBuf::from(folder);
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(vec![path.to_owned()]);
        }
        Err(error) => return Err(whole(&folder, &error)),
    };
    let mut drop_ins = entries
        .map(|entry| {
            entry
                .map(|entry| entry.path())
                .map_err(|error| whole(&folder, &error))
        })
        .filter(|path| {
            !path
                .as_ref()
                .is_ok_and(|path| path.extension().is_none_or(|e| e != "toml"))
        })
        .collect::<Result<Vec<_>, _>>()?;
    drop_ins.sort();
    drop_ins.insert(0, path.to_owned());
    Ok(drop_ins)
}

impl Draft {
    fn read(&mut self, source: &Source<'_>) -> Result<(), ConfigError> {
        let parsed = source.parse()?;
        let mut root = TableReader::new(source, parsed.get_ref(), parsed.span());
        if let Some(tracker) = root.optional("tracker", tracker)? {
            self.tracker = Some(tracker);
        }
        replace(&mut self.fault, root.optional("fault", fault)?);
        replace(
            &mut self.shared_memory,
            root.optional("shared_memory", shared_memory)?,
        );
        if let Some(metrics) = root.raw("metrics") {
            let mut reader = table(source, "metrics", metrics)?;
            self.metrics.read(&mut reader)?;
            reader.finish()?;
        }
        if let Some(record) = root.raw("record") {
            let mut reader = table(source, "record", record)?;
            self.record.read(&mut reader)?;
            reader.finish()?;
        }
        if let Some(exchange) = root.raw("exchange") {
            let mut reader = table(source, "exchange", exchange)?;
            self.exchange.read(&mut reader)?;
            reader.finish()?;
        }
        replace(
            &mut self.status_group,
            root.optional("status_group", group)?,
        );
        replace(
            &mut self.node_features,
            root.optional("node_features", reader::absolute_path)?,
        );
        if let Some(wait) = root.optional("calibrate_when_idle", wait_or_never)? {
            self.calibrate_when_idle = Some(wait);
        }
        if let Some(defaults) = root.raw("defaults") {
            let mut reader = table(source, "defaults", defaults)?;
            self.defaults.read(&mut reader)?;
            reader.finish()?;
        }
        let selects = root.raw("select");
        root.finish()?;
        let first = self.selects.len();
        for select in array(source, selects)? {
            self.add(read_select(source, select)?, first)?;
        }
        Ok(())
    }

    /// Adds a select. `first` is the index of its file's first one: a select of an earlier file with the same name is
    /// replaced, in its place.
    fn add(&mut self, select: Written, first: usize) -> Result<(), ConfigError> {
        match self
            .selects
            .iter()
            .position(|known| known.name == select.name)
        {
            None => self.selects.push(select),
            Some(known) if known < first => self.selects[known] = select,
            Some(_) => {
                let reason = format!("there are two selects named '{}' in this file", select.name);
                return Err(select.error(&reason));
            }
        }
        Ok(())
    }

    fn finish(self, path: &Path) -> Result<Config, ConfigError> {
        if self.selects.is_empty() {
            let reason = "selects nothing; `mega init` writes selections from what runs here; or add a [[select]] table with a name and at least one of cgroup, executable, namespace, pod, pod_labels, pod_annotations, user, min_resident";
            return Err(whole(path, &reason));
        }
        let defaults = self.defaults.over(&Settings::default());
        check(&defaults).map_err(|error| whole(path, &format!("[defaults]: {error}")))?;
        let selects = self
            .selects
            .into_iter()
            .map(|select| select.finish(&defaults));
        Ok(Config {
            tracker: self.tracker.flatten(),
            // mega does not change unasked what concerns every program of the machine.
            fault: self.fault.unwrap_or(FaultMode::Inherit),
            shared_memory: self.shared_memory.unwrap_or_default(),
            metrics: self.metrics,
            record: self.record.finish().map_err(|why| whole(path, &why))?,
            exchange: self.exchange.finish().map_err(|why| whole(path, &why))?,
            status_group: self.status_group,
            node_features: self.node_features,
            calibrate_when_idle: self
                .calibrate_when_idle
                .unwrap_or(Some(CALIBRATE_WHEN_IDLE)),
            selects: selects.collect::<Result<_, _>>()?,
        })
    }
}

impl Written {
    fn finish(self, defaults: &Settings) -> Result<Select, ConfigError> {
        let settings = self.overrides.over(defaults);
        if let Err(error) = check(&settings) {
            return Err(self.error(&error.to_string()));
        }
        if self.selection.is_empty() {
            return Err(self.error(
                "this select would take every process; give at least one of cgroup, executable, namespace, pod, pod_labels, pod_annotations, user, min_resident",
            ));
        }
        Ok(Select {
            name: self.name,
            selection: self.selection,
            settings,
        })
    }

    /// An error about it as a whole.
    fn error(&self, reason: &str) -> ConfigError {
        match &self.origin {
            ConfigError::At { path, line, .. } => ConfigError::At {
                path: path.clone(),
                line: *line,
                reason: reason.to_owned(),
            },
            ConfigError::File { path, .. } => whole(path, &reason),
        }
    }
}

/// Whether there is such a policy and it takes these parameters.
fn check(settings: &Settings) -> Result<(), BuildError> {
    settings.build_policy().map(drop)
}

impl Overrides {
    fn read(&mut self, reader: &mut TableReader<'_>) -> Result<(), ConfigError> {
        replace(&mut self.policy, reader.optional("policy", policy_name)?);
        replace(
            &mut self.parameters,
            reader.optional("parameters", parameters)?,
        );
        replace(
            &mut self.interval,
            reader.optional("interval", parsed(value::interval_or_auto))?,
        );
        replace(
            &mut self.cpu_budget,
            reader.optional("cpu_budget", parsed(value::cpu_share))?,
        );
        replace(
            &mut self.copy_budget,
            reader.optional("copy_budget", parsed(value::bytes_per_second))?,
        );
        replace(
            &mut self.standstill,
            reader.optional("standstill", parsed(value::standstill))?,
        );
        replace(
            &mut self.lock_bound,
            reader.optional("lock_bound", parsed(value::lock_bound))?,
        );
        replace(
            &mut self.coverage,
            reader.optional("coverage", parsed(value::part))?,
        );
        replace(
            &mut self.coverage_of,
            reader.optional("coverage_of", chosen)?,
        );
        Ok(())
    }

    /// These settings, and `defaults` where nothing was written. Parameters belong to a policy: another policy does not
    /// inherit them.
    fn over(&self, defaults: &Settings) -> Settings {
        let policy = self
            .policy
            .clone()
            .unwrap_or_else(|| defaults.policy.clone());
        let inherited = || {
            if policy == defaults.policy {
                defaults.parameters.clone()
            } else {
                Parameters::new()
            }
        };
        let parameters = self.parameters.clone().unwrap_or_else(inherited);
        let mut budgets = defaults.budgets;
        budgets.cpu_share = self.cpu_budget.unwrap_or(budgets.cpu_share);
        budgets.copy_bytes_per_second = self.copy_budget.unwrap_or(budgets.copy_bytes_per_second);
        budgets.standstill = self.standstill.unwrap_or(budgets.standstill);
        Settings {
            policy,
            parameters,
            interval: self.interval.unwrap_or(defaults.interval),
            budgets,
            lock_bound: self.lock_bound.unwrap_or(defaults.lock_bound),
            coverage: self.coverage.or(defaults.coverage),
            coverage_of: self
                .coverage_of
                .clone()
                .or_else(|| defaults.coverage_of.clone()),
        }
    }
}

fn replace<T>(place: &mut Option<T>, value: Option<T>) {
    if value.is_some() {
        *place = value;
    }
}

fn read_select(
    source: &Source<'_>,
    written: &Spanned<DeValue<'_>>,
) -> Result<Written, ConfigError> {
    let mut reader = table(source, "select", written)?;
    let name = reader.optional("name", |value| reader::string(value).map(str::to_owned))?;
    let selection = Selection {
        cgroup: reader.optional("cgroup", pattern)?,
        executable: reader.optional("executable", pattern)?,
        namespace: reader.optional("namespace", name_pattern)?,
        pod: reader.optional("pod", name_pattern)?,
        pod_labels: reader.optional("pod_labels", pairs)?.unwrap_or_default(),
        pod_annotations: reader
            .optional("pod_annotations", pairs)?
            .unwrap_or_default(),
        user: reader.optional("user", user)?,
        min_resident: reader.optional("min_resident", parsed(mega_core::bytes::parse))?,
    };
    let mut overrides = Overrides::default();
    overrides.read(&mut reader)?;
    let span = reader.finish()?;
    let origin = source.error(&span, "");
    let name = name.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| {
        source.error(&span, "this select has no name; add one, as name = \"web\"")
    })?;
    Ok(Written {
        name,
        selection,
        overrides,
        origin,
    })
}

fn table<'s>(
    source: &'s Source<'s>,
    key: &str,
    value: &'s Spanned<DeValue<'s>>,
) -> Result<TableReader<'s>, ConfigError> {
    match value.get_ref().as_table() {
        Some(table) => Ok(TableReader::new(source, table, value.span())),
        None => {
            let reason = format!(
                "'{key}': must be a table, not {}",
                reader::kind(value.get_ref())
            );
            Err(source.error(&value.span(), reason))
        }
    }
}

fn array<'s>(
    source: &Source<'_>,
    value: Option<&'s Spanned<DeValue<'s>>>,
) -> Result<Vec<&'s Spanned<DeValue<'s>>>, ConfigError> {
    let Some(value) = value else {
        return Ok(Vec::new());
    };
    match value.get_ref().as_array() {
        Some(array) => Ok(array.iter().collect()),
        None => Err(source.error(
            &value.span(),
            "'select': must be an array of tables, written [[select]]",
        )),
    }
}

/// A reader of strings that `parse` understands.
fn parsed<T>(
    parse: impl Fn(&str) -> Result<T, String>,
) -> impl Fn(&DeValue<'_>) -> Result<T, String> {
    move |value| parse(reader::string(value)?)
}

/// One word, or an array of some.
fn chosen(value: &DeValue<'_>) -> Result<Chosen, String> {
    match value.as_array() {
        None => Chosen::parse([reader::string(value)?]),
        Some(words) => {
            let words = words.iter().map(|word| reader::string(word.get_ref()));
            Chosen::parse(words.collect::<Result<Vec<_>, _>>()?)
        }
    }
}

fn tracker(value: &DeValue<'_>) -> Result<Option<TrackerKind>, String> {
    match reader::string(value)? {
        "auto" => Ok(None),
        name => name.parse().map(Some).map_err(|_| {
            format!("'{name}' is no tracker; there are auto, module, bpf, page_idle and mapped")
        }),
    }
}

/// `None` for never.
fn wait_or_never(value: &DeValue<'_>) -> Result<Option<Duration>, String> {
    match reader::string(value)? {
        "never" => Ok(None),
        text => value::wait(text)
            .map(Some)
            .map_err(|error| format!("{error}; or never")),
    }
}

fn fault(value: &DeValue<'_>) -> Result<FaultMode, String> {
    match reader::string(value)? {
        "base" => Ok(FaultMode::Base),
        "inherit" => Ok(FaultMode::Inherit),
        other => Err(format!("'{other}' is neither base nor inherit")),
    }
}

fn shared_memory(value: &DeValue<'_>) -> Result<SharedMemory, String> {
    match reader::string(value)? {
        "advise" => Ok(SharedMemory::Advise),
        "inherit" => Ok(SharedMemory::Inherit),
        other => Err(format!("'{other}' is neither advise nor inherit")),
    }
}

fn policy_name(value: &DeValue<'_>) -> Result<String, String> {
    let name = reader::string(value)?;
    promotion::build(name, &Parameters::new()).map_err(|error| error.to_string())?;
    Ok(name.to_owned())
}

fn parameters(value: &DeValue<'_>) -> Result<Parameters, String> {
    let table = value
        .as_table()
        .ok_or_else(|| format!("must be a table, not {}", reader::kind(value)))?;
    table
        .iter()
        .map(|(name, value)| {
            let number = reader::number(value.get_ref());
            let number = number.map_err(|reason| format!("'{}' {reason}", name.get_ref()))?;
            Ok((name.get_ref().to_string(), number))
        })
        .collect()
}

fn pattern(value: &DeValue<'_>) -> Result<Pattern, String> {
    let text = reader::string(value)?;
    if !text.starts_with('/') {
        return Err(format!(
            "'{text}' is not an absolute path; start it with '/'"
        ));
    }
    to_pattern(text)
}

fn name_pattern(value: &DeValue<'_>) -> Result<Pattern, String> {
    to_pattern(reader::string(value)?)
}

fn to_pattern(text: &str) -> Result<Pattern, String> {
    Pattern::new(text).map_err(|error| format!("'{text}' is not a pattern: {}", error.msg))
}

/// A table of patterns.
fn pairs(value: &DeValue<'_>) -> Result<BTreeMap<String, Pattern>, String> {
    let table = value
        .as_table()
        .ok_or_else(|| format!("must be a table, not {}", reader::kind(value)))?;
    let pairs = table.iter().map(|(key, value)| {
        let pattern = name_pattern(value.get_ref());
        let pattern = pattern.map_err(|reason| format!("'{}' {reason}", key.get_ref()))?;
        Ok((key.get_ref().to_string(), pattern))
    });
    pairs.collect()
}

fn user(value: &DeValue<'_>) -> Result<u32, String> {
    let name = name_or_number(value)?;
    if let Ok(uid) = name.parse() {
        return Ok(uid);
    }
    match nix::unistd::User::from_name(name) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => Err(format!("there is no user '{name}'")),
        Err(error) => Err(format!("cannot look up user '{name}': {error}")),
    }
}

pub(super) fn group(value: &DeValue<'_>) -> Result<u32, String> {
    let name = name_or_number(value)?;
    if let Ok(gid) = name.parse() {
        return Ok(gid);
    }
    match nix::unistd::Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        Ok(None) => Err(format!(
            "there is no group '{name}'; add it with `groupadd --system {name}`"
        )),
        Err(error) => Err(format!("cannot look up group '{name}': {error}")),
    }
}

fn name_or_number<'v>(value: &'v DeValue<'_>) -> Result<&'v str, String> {
    match value {
        DeValue::Integer(number) => Ok(number.as_str()),
        _ => reader::string(value),
    }
}

#[cfg(test)]
mod tests;
