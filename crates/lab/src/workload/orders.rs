//! The orders that a program reads from standard input: a line `rest`, a line `work`, and the end of input to end.

use std::io::{BufRead, Read};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Error;

/// Bytes of the longest line that is looked at as a whole; no order is as long.
const LONGEST: u64 = 64;

/// What was asked for last.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Order {
    Work,
    Rest,
    End,
    /// By a line that is none of the others: also the end.
    Unknown(String),
}

/// The latest order, which one thread waits for and another reads.
pub(super) struct Orders {
    latest: Mutex<Latest>,
    changed: Condvar,
}

struct Latest {
    order: Order,
    /// How often it was told to work.
    works: u64,
}

/// A rest that was asked for. It is over once it is told to work, even where another rest follows at once: whoever asked
/// for that waits to be told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rest {
    works: u64,
}

impl Orders {
    /// To work.
    pub(super) fn new() -> Self {
        Orders {
            latest: Mutex::new(Latest {
                order: Order::Work,
                works: 0,
            }),
            changed: Condvar::new(),
        }
    }

    /// Takes in lines until there are no more, or one is unknown; an input that cannot be read has ended.
    pub(super) fn obey(&self, mut input: impl BufRead) {
        loop {
            let mut line = Vec::new();
            let read = input.by_ref().take(LONGEST).read_until(b'\n', &mut line);
            let order = match read {
                Ok(1..) => order(&String::from_utf8_lossy(&line)),
                Ok(0) | Err(_) => Order::End,
            };
            let is_last = matches!(order, Order::End | Order::Unknown(_));
            self.tell(order);
            self.changed.notify_all();
            if is_last {
                return;
            }
        }
    }

    fn tell(&self, order: Order) {
        let mut latest = self.latest();
        latest.works += u64::from(order == Order::Work);
        latest.order = order;
    }

    /// The rest that is asked for, if one is.
    pub(super) fn rest(&self) -> Option<Rest> {
        let latest = self.latest();
        (latest.order == Order::Rest).then_some(Rest {
            works: latest.works,
        })
    }

    /// Whether it is to end.
    pub(super) fn are_to_end(&self) -> bool {
        matches!(self.latest().order, Order::End | Order::Unknown(_))
    }

    /// Sleeps until a rest is over, but not beyond `end`.
    pub(super) fn wait_for_work(&self, rest: Rest, end: Option<Instant>) {
        let mut latest = self.latest();
        while latest.order == Order::Rest && latest.works == rest.works {
            // Without an end, as long as it takes: looked at again every minute.
            let left = end.map_or(Duration::from_secs(60), |end| {
                end.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(latest, left);
            latest = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether all that was read was understood.
    ///
    /// # Errors
    /// [`Error::Failed`], with the line that was not.
    pub(super) fn check(&self) -> Result<(), Error> {
        match &self.latest().order {
            Order::Unknown(line) => Err(Error::Failed(format!(
                "reading what to do on standard input: `{line}` is none of the lines `rest` and `work`; send one of \
                 them, or end the input to end the program"
            ))),
            Order::Work | Order::Rest | Order::End => Ok(()),
        }
    }

    fn latest(&self) -> MutexGuard<'_, Latest> {
        // An order is replaced as a whole: none can be half written.
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn order(line: &str) -> Order {
    match line.trim_end() {
        "work" => Order::Work,
        "rest" => Order::Rest,
        other => Order::Unknown(other.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(input: &[u8]) -> Order {
        let orders = Orders::new();
        orders.obey(input);
        orders.latest().order.clone()
    }

    #[test]
    fn the_end_of_input_is_an_order() {
        for input in ["", "rest\n", "rest\r\nwork\nrest\n", "work"] {
            assert_eq!(after(input.as_bytes()), Order::End, "{input:?}");
        }
    }

    #[test]
    fn an_unknown_line_ends_it_and_is_named() {
        for (input, line) in [
            ("sleep\nwork\n", "sleep"),
            ("rest\n\n", ""),
            (" rest\n", " rest"),
        ] {
            assert_eq!(after(input.as_bytes()), Order::Unknown(line.to_owned()));
        }
        let orders = Orders::new();
        orders.obey(b"rests\n".as_slice());
        assert!(orders.are_to_end() && orders.rest().is_none());
        let error = orders.check().unwrap_err().to_string();
        assert!(error.contains("`rests` is none of"), "{error}");
        assert_eq!(error.lines().count(), 1);
    }

    #[test]
    fn a_rest_ends_at_its_time_or_by_an_order() {
        let orders = Orders::new();
        assert_eq!(orders.rest(), None);
        orders.tell(Order::Rest);
        let rest = orders.rest().unwrap();
        orders.wait_for_work(rest, Some(Instant::now() + Duration::from_millis(5)));
        assert_eq!(orders.rest(), Some(rest), "its time is over, not the rest");
        std::thread::scope(|scope| {
            scope.spawn(|| orders.obey(b"work\n".as_slice()));
            orders.wait_for_work(rest, None);
        });
    }

    #[test]
    fn a_rest_that_follows_at_once_is_another_one() {
        let orders = Orders::new();
        orders.tell(Order::Rest);
        let rest = orders.rest().unwrap();
        orders.tell(Order::Work);
        orders.tell(Order::Rest);
        orders.wait_for_work(rest, None);
        assert_ne!(orders.rest(), Some(rest));
    }

    proptest::proptest! {
        #[test]
        fn no_input_is_read_for_ever_or_makes_it_panic(input: Vec<u8>) {
            let last = after(&input);
            proptest::prop_assert!(matches!(last, Order::End | Order::Unknown(_)));
        }
    }
}
