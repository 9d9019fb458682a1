//! What an experiment found, beside what the paper found.

use serde::{Deserialize, Serialize};

use crate::live::metric::{Better, Unit};

/// All of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Findings {
    /// Memory of the simulated machine, in bytes.
    pub(super) memory_bytes: u64,
    pub(super) tables: Vec<Table>,
    /// What each system did meanwhile: the reasons of what the tables say.
    pub(super) happened: Vec<Happened>,
}

/// One quantity under several systems.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) unit: Unit,
    pub(super) systems: Vec<String>,
    /// The place of the system that the others are compared with; `None` where each stands beside the paper's number of its own.
    pub(super) reference: Option<usize>,
    /// Which numbers are better.
    pub(super) better: Better,
    /// Whether the rows are points of a course, as of time or size.
    pub(super) is_course: bool,
    /// Whether what happened counts the runs that it is about: only then is it a reason of what the table says.
    #[serde(default = "counted")]
    pub(super) is_counted: bool,
    pub(super) rows: Vec<Row>,
}

/// Findings that were written before tables told it.
const fn counted() -> bool {
    true
}

/// One case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) name: String,
    /// By system; `None` where the simulation has no such number.
    pub(super) ours: Vec<Option<f64>>,
    /// By system; `None` where the paper has none.
    pub(super) paper: Vec<Option<f64>>,
}

impl Table {
    /// A table whose numbers stand each beside the paper's number of its own.
    pub(super) fn new(
        title: impl Into<String>,
        unit: Unit,
        systems: Vec<String>,
        rows: Vec<Row>,
    ) -> Self {
        Table {
            title: title.into(),
            unit,
            systems,
            reference: None,
            better: Better::Neither,
            is_course: false,
            is_counted: true,
            rows,
        }
    }

    /// The same with the system at a place as the one that the others are compared with.
    pub(super) fn against(self, reference: usize) -> Self {
        Table {
            reference: Some(reference),
            ..self
        }
    }

    /// The same where such numbers are better.
    pub(super) fn better(self, better: Better) -> Self {
        Table { better, ..self }
    }

    /// The same with rows that are points of a course.
    pub(super) fn by_course(self) -> Self {
        Table {
            is_course: true,
            ..self
        }
    }

    /// The same about runs that what happened does not count.
    pub(super) fn uncounted(self) -> Self {
        Table {
            is_counted: false,
            ..self
        }
    }
}

impl Row {
    /// Whether the paper's numbers are ratios to the system at that place.
    pub(super) fn is_relative(&self, reference: Option<usize>) -> bool {
        let base = reference.and_then(|place| self.paper.get(place).copied().flatten());
        base == Some(1.0)
    }

    /// The paper's numbers in ours, where they are ratios to the system at that place.
    pub(super) fn paper_beside_ours(&self, reference: Option<usize>) -> Vec<Option<f64>> {
        let base = reference.and_then(|place| self.ours.get(place).copied().flatten());
        match base.filter(|_| self.is_relative(reference)) {
            Some(base) => {
                let numbers = self.paper.iter();
                numbers
                    .map(|number| number.map(|number| number * base))
                    .collect()
            }
            None => self.paper.clone(),
        }
    }

    /// A case that the paper does not have.
    pub(super) fn ours(name: impl Into<String>, ours: Vec<Option<f64>>) -> Self {
        Row {
            name: name.into(),
            paper: vec![None; ours.len()],
            ours,
        }
    }

    /// A case that the paper has.
    pub(super) fn beside(
        name: impl Into<String>,
        ours: Vec<Option<f64>>,
        paper: Vec<Option<f64>>,
    ) -> Self {
        debug_assert_eq!(ours.len(), paper.len());
        Row {
            name: name.into(),
            ours,
            paper,
        }
    }
}

/// What happened under a system, in numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Happened {
    pub(super) system: String,
    /// What is counted, and how much of it there was.
    pub(super) counts: Vec<(String, f64)>,
}
