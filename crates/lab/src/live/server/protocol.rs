//! What a load must know of a key-value server's protocol.

/// What a server says to a GET or a SET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer<'a> {
    Stored,
    Value(&'a [u8]),
    /// There is no such key.
    Missing,
}

/// A protocol of keys and values: requests as bytes and bytes as answers, without any input or output.
pub(crate) trait Protocol {
    /// Appends the request that stores a value.
    fn set(out: &mut Vec<u8>, key: &str, value: &[u8]);

    /// Appends the request for a value.
    fn get(out: &mut Vec<u8>, key: &str);

    /// The answer at the start of what was received and its length in bytes; `None` where some of it is still to
    /// come.
    ///
    /// # Errors
    /// What the server complains of, or what is wrong with its bytes.
    fn answer(received: &[u8]) -> Result<Option<(Answer<'_>, usize)>, String>;
}
