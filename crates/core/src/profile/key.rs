//! Which runs are runs of the same program: the executable, the shape of its arguments, and its unit.
//!
//! Arguments may hold secrets, and a profile outlives the program. So a profile shows the names of options and a first
//! word alone; all else goes into a hash.

use serde::{Deserialize, Serialize};

/// Bytes of an argument that count.
const ARGUMENT_BYTES: usize = 256;
/// Arguments that count.
const ARGUMENTS: usize = 64;
/// The longest shape that is kept, in bytes.
const SHAPE_BYTES: usize = 256;
/// The longest part of a profile's name that comes from the executable, in bytes.
const NAME_BYTES: usize = 32;

/// What a profile is found by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// The path of the program file.
    pub executable: String,
    /// What of its arguments is shown ([`arguments_shape`]).
    pub arguments: String,
    /// The service that it runs in, such as `redis.service`. `None` outside of services.
    pub unit: Option<String>,
    /// The name of the profile: the executable's and a hash of all that counts.
    pub name: String,
}

impl Key {
    /// The key of a program. `arguments` are without the program's own name.
    #[must_use]
    pub fn new<'a>(
        executable: &str,
        arguments: impl IntoIterator<Item = &'a str>,
        unit: Option<&str>,
    ) -> Self {
        let counting: Vec<String> = arguments
            .into_iter()
            .take(ARGUMENTS)
            .map(without_numbers)
            .collect();
        let mut hash = Fnv::default();
        hash.add(executable);
        counting.iter().for_each(|argument| hash.add(argument));
        hash.add(unit.unwrap_or_default());
        let base = executable.rsplit('/').next().unwrap_or_default();
        let base: String = base
            .chars()
            .map(|c| if is_plain(c) { c } else { '_' })
            .take(NAME_BYTES)
            .collect();
        let base = if base.is_empty() { "program" } else { &base };
        Key {
            executable: executable.to_owned(),
            arguments: arguments_shape(counting.iter().map(String::as_str)),
            unit: unit.map(str::to_owned),
            name: format!("{base}-{:016x}", hash.0),
        }
    }
}

/// What of a program's arguments is shown: a first word of letters, as subcommands are, and the names of options. `_`
/// stands for what is left out.
#[must_use]
pub fn arguments_shape<'a>(arguments: impl IntoIterator<Item = &'a str>) -> String {
    let mut shape: Vec<&str> = Vec::new();
    let mut length = 0;
    for (number, argument) in arguments.into_iter().enumerate() {
        let shown = if argument.starts_with('-') {
            argument.split('=').next().unwrap_or_default()
        } else if number == 0 && is_word(argument) {
            argument
        } else {
            "_"
        };
        // Letters after one dash may hold a value, as in `-psecret`.
        let is_name = shown.starts_with("--") || shown.len() <= 2 || number == 0;
        let shown = if is_name && shown.chars().all(is_plain) {
            shown
        } else {
            "_"
        };
        length += shown.len() + 1;
        if length > SHAPE_BYTES {
            shape.push("...");
            break;
        }
        if shown != "_" || shape.last() != Some(&"_") {
            shape.push(shown);
        }
    }
    shape.join(" ")
}

/// Whether it may be a subcommand.
fn is_word(text: &str) -> bool {
    (1..=16).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphabetic() || c == '-')
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+')
}

/// An argument with each number replaced: sizes, times, ports and pids differ from run to run.
fn without_numbers(argument: &str) -> String {
    let mut text = String::new();
    for c in argument.chars() {
        if text.len() >= ARGUMENT_BYTES {
            break;
        }
        match (c.is_ascii_digit(), text.ends_with('#')) {
            (true, true) => {}
            (true, false) => text.push('#'),
            (false, _) => text.push(c),
        }
    }
    text
}

/// The hash FNV-1a of 64 bits: the same in every build, which the standard library's does not promise.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Adds a text and its end.
    fn add(&mut self, text: &str) {
        for byte in text.bytes().chain([0]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(arguments: &[&str]) -> Key {
        Key::new("/usr/bin/prog", arguments.iter().copied(), None)
    }

    #[test]
    fn numbers_make_no_other_program() {
        let first = key(&["workload", "gups", "--size", "4GiB", "--seconds=45"]);
        let second = key(&["workload", "gups", "--size", "16GiB", "--seconds=3"]);
        assert_eq!(first, second);
        assert_eq!(first.arguments, "workload _ --size _ --seconds");
        assert!(first.name.starts_with("prog-"));
    }

    #[test]
    fn words_and_units_make_another_program() {
        let names = [
            key(&["-jar", "one.jar"]).name,
            key(&["-jar", "two.jar"]).name,
            key(&["-jartwo.jar"]).name,
            Key::new("/usr/bin/prog", ["-jar", "one.jar"], Some("x.service")).name,
            Key::new("/usr/bin/other", ["-jar", "one.jar"], None).name,
        ];
        let different: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(different.len(), names.len());
    }

    #[test]
    fn values_are_not_shown() {
        let key = key(&[
            "run",
            "--password",
            "hunter",
            "--token=abc",
            "-phunter",
            "hunter",
        ]);
        assert_eq!(key.arguments, "run --password _ --token _");
    }

    proptest! {
        #[test]
        fn any_arguments_give_a_short_key_that_is_a_file_name(
            executable in ".{0,300}", arguments in prop::collection::vec(".{0,400}", 0..100),
        ) {
            let key = Key::new(&executable, arguments.iter().map(String::as_str), None);
            prop_assert!(key.name.len() <= NAME_BYTES + 17);
            prop_assert!(key.name.chars().all(is_plain));
            prop_assert!(key.arguments.len() <= SHAPE_BYTES + 4);
        }
    }
}
