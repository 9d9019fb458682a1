//! Reads TOML tables key by key. A key that nobody asks for is an error, so no list of keys is needed.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What is wrong with a configuration, and where.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum ConfigError {
    /// Something in a file.
    #[error("{}:{line}: {reason}", path.display())]
    At {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// Something about a file as a whole.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// A file's text, and where it came from.
pub(super) struct Source<'s> {
    pub(super) path: &'s Path,
    pub(super) text: &'s str,
}

impl Source<'_> {
    /// The error at `span` of the text.
    pub(super) fn error(&self, span: &Range<usize>, reason: impl Into<String>) -> ConfigError {
        let before = self.text.as_bytes().iter().take(span.start);
        let newlines = before.filter(|&&byte| byte == b'\n').count();
        ConfigError::At {
            path: self.path.to_owned(),
            line: newlines + 1,
            reason: reason.into(),
        }
    }

    /// Parses the text.
    pub(super) fn parse(&self) -> Result<Spanned<DeTable<'_>>, ConfigError> {
        DeTable::parse(self.text).map_err(|error| {
            let end = self.text.len()..self.text.len();
            let reason = error.message().replace('\n', ", ");
            self.error(&error.span().unwrap_or(end), reason)
        })
    }
}

/// One table that is being read.
pub(super) struct TableReader<'s> {
    source: &'s Source<'s>,
    table: &'s DeTable<'s>,
    span: Range<usize>,
    known: Vec<&'static str>,
}

impl<'s> TableReader<'s> {
    pub(super) fn new(source: &'s Source<'s>, table: &'s DeTable<'s>, span: Range<usize>) -> Self {
        TableReader {
            source,
            table,
            span,
            known: Vec::new(),
        }
    }

    /// The value of `key` as `read` understands it, if the key is there.
    pub(super) fn optional<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&'s DeValue<'s>) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.raw(key) else {
            return Ok(None);
        };
        let wrong = |reason| {
            self.source
                .error(&value.span(), format!("'{key}': {reason}"))
        };
        read(value.get_ref()).map(Some).map_err(wrong)
    }

    /// The value of `key` as it stands, with its place, if the key is there.
    pub(super) fn raw(&mut self, key: &'static str) -> Option<&'s Spanned<DeValue<'s>>> {
        self.known.push(key);
        self.table
            .iter()
            .find(|(name, _)| name.get_ref() == key)
            .map(|(_, value)| value)
    }

    /// Checks that there are no keys that nobody asked for. Returns where the table stands.
    pub(super) fn finish(self) -> Result<Range<usize>, ConfigError> {
        let unknown = |name: &Cow<'_, str>| !self.known.contains(&name.as_ref());
        match self
            .table
            .keys()
            .filter(|name| unknown(name.get_ref()))
            .min_by_key(|name| name.span().start)
        {
            None => Ok(self.span),
            Some(name) => {
                let hint = match mega_core::nearest(name.get_ref(), self.known.iter().copied()) {
                    Some(known) => format!("; did you mean '{known}'?"),
                    None => format!("; there are {}", self.known.join(", ")),
                };
                let reason = format!("unknown key '{}'{hint}", name.get_ref());
                Err(self.source.error(&name.span(), reason))
            }
        }
    }
}

/// A string.
pub(super) fn string<'s>(value: &'s DeValue<'s>) -> Result<&'s str, String> {
    value
        .as_str()
        .ok_or_else(|| format!("must be a string, not {}", kind(value)))
}

/// A path from the root on.
pub(super) fn absolute_path(value: &DeValue<'_>) -> Result<PathBuf, String> {
    let path = PathBuf::from(string(value)?);
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(format!(
            "'{}' is not an absolute path; start it with '/'",
            path.display()
        ))
    }
}

/// A number, whole or not.
pub(super) fn number(value: &DeValue<'_>) -> Result<f64, String> {
    let text = match value {
        DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
        DeValue::Float(float) => float.as_str(),
        _ => return Err(format!("must be a decimal number, not {}", kind(value))),
    };
    text.parse()
        .map_err(|_| format!("'{text}' is not a number"))
}

/// What a value is, with its article.
pub(super) fn kind(value: &DeValue<'_>) -> String {
    let name = value.type_str();
    let article = if name.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {name}")
}
