//! The policies by name.

use serde::Serialize;

use super::{Policy, adaptive, base, hawkeye, ingens, mega, trident, trident_1g_only, trident_nc};
use crate::nearest;
use crate::parameters::{ParameterInfo, Parameters, Values};

/// What there is to know about a policy before it is built.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PolicyInfo {
    /// The name it is selected by.
    pub name: &'static str,
    /// How it decides, in one sentence.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// What it can be adjusted by.
    pub parameters: &'static [ParameterInfo],
    /// Whether it is a policy of its own only where the machine has giant pages.
    #[serde(skip)]
    pub for_giant_pages: bool,
    /// Whether the kernel is to empty the next chunk for a giant page, not the one with the least in it.
    #[serde(skip)]
    pub sequential_chunks: bool,
    /// Pairs of parameters of which the first must not be above the second.
    #[serde(skip)]
    pub(super) ordered: &'static [(&'static ParameterInfo, &'static ParameterInfo)],
    #[serde(skip)]
    pub(super) build: fn(Values<'_>) -> Box<dyn Policy>,
}

/// The name of the policy that is used where none is named.
pub const DEFAULT_POLICY: &str = "adaptive";

/// Every policy, the default first.
#[must_use]
pub fn registry() -> &'static [PolicyInfo] {
    static REGISTRY: [PolicyInfo; 8] = [
        adaptive::INFO,
        mega::INFO,
        hawkeye::INFO,
        ingens::INFO,
        trident::INFO,
        trident_1g_only::INFO,
        trident_nc::INFO,
        base::INFO,
    ];
    &REGISTRY
}

/// Why a policy could not be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BuildError {
    /// There is no policy of this name.
    #[error("unknown policy '{name}'{}", did_you_mean(*.nearest))]
    UnknownPolicy {
        /// What was asked for.
        name: String,
        /// The most similar name there is, if one is similar.
        nearest: Option<&'static str>,
    },
    /// The policy has no parameter of this name.
    #[error("policy '{policy}' has no parameter '{name}'{}", did_you_mean(*.nearest))]
    UnknownParameter {
        /// The policy.
        policy: &'static str,
        /// What was asked for.
        name: String,
        /// The most similar name there is, if one is similar.
        nearest: Option<&'static str>,
    },
    /// The value is not one the parameter takes.
    #[error(
        "parameter '{}' of policy '{policy}' takes {} from {} to {}, not {value}",
        .parameter.name,
        if .parameter.is_whole() { "whole numbers" } else { "numbers" },
        .parameter.min,
        .parameter.max
    )]
    OutOfRange {
        /// The policy.
        policy: &'static str,
        /// Its parameter.
        parameter: &'static ParameterInfo,
        /// The value that was asked for.
        value: f64,
    },
    /// Two values that cannot both hold: the policy would do and undo the same thing.
    #[error(
        "parameters of policy '{policy}' contradict each other: '{low}' is {low_value} and must not be above '{high}', which is {high_value}"
    )]
    Contradiction {
        /// The policy.
        policy: &'static str,
        /// The parameter that must be the lower one.
        low: &'static str,
        /// Its value.
        low_value: f64,
        /// The parameter that must be the higher one.
        high: &'static str,
        /// Its value.
        high_value: f64,
    },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest
        .map(|name| format!("; did you mean '{name}'?"))
        .unwrap_or_default()
}

/// Builds the named policy, with `parameters` in place of its defaults.
///
/// # Errors
///
/// When the name, a parameter's name or its value is not one there is.
pub fn build(name: &str, parameters: &Parameters) -> Result<Box<dyn Policy>, BuildError> {
    let Some(info) = registry().iter().find(|info| info.name == name) else {
        let names = registry().iter().map(|info| info.name);
        return Err(BuildError::UnknownPolicy {
            name: name.to_owned(),
            nearest: nearest(name, names),
        });
    };
    check_parameters(info.name, info.parameters, parameters)?;
    let values = Values(parameters);
    for (low, high) in info.ordered {
        let (low_value, high_value) = (values.get(low), values.get(high));
        if low_value > high_value {
            let (low, high) = (low.name, high.name);
            return Err(BuildError::Contradiction {
                policy: info.name,
                low,
                low_value,
                high,
                high_value,
            });
        }
    }
    Ok((info.build)(values))
}

/// Checks that every name in `parameters` is one that `policy` knows, and every value one it takes.
pub(crate) fn check_parameters(
    policy: &'static str,
    known: &'static [ParameterInfo],
    parameters: &Parameters,
) -> Result<(), BuildError> {
    parameters
        .iter()
        .try_for_each(|(name, value)| check_parameter(policy, known, name, *value))
}

fn check_parameter(
    policy: &'static str,
    known: &'static [ParameterInfo],
    name: &str,
    value: f64,
) -> Result<(), BuildError> {
    let Some(parameter) = known.iter().find(|parameter| parameter.name == name) else {
        let nearest = nearest(name, known.iter().map(|parameter| parameter.name));
        return Err(BuildError::UnknownParameter {
            policy,
            name: name.to_owned(),
            nearest,
        });
    };
    let in_range = (parameter.min..=parameter.max).contains(&value);
    let whole = !parameter.is_whole() || value.fract() == 0.0;
    if in_range && whole {
        Ok(())
    } else {
        Err(BuildError::OutOfRange {
            policy,
            parameter,
            value,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(name: &str, parameters: &[(&str, f64)]) -> String {
        let parameters = parameters
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect();
        match build(name, &parameters) {
            Ok(policy) => panic!("{} was built", policy.name()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn every_policy_is_built_under_its_own_name_with_its_own_defaults() {
        for info in registry() {
            let defaults = info
                .parameters
                .iter()
                .map(|p| (p.name.to_owned(), p.default))
                .collect();
            let policy = build(info.name, &defaults).expect("defaults are in range");
            assert_eq!(policy.name(), info.name);
            assert!(build(info.name, &Parameters::new()).is_ok());
        }
        assert!(registry().iter().any(|info| info.name == DEFAULT_POLICY));
    }

    #[test]
    fn a_misspelt_name_gets_the_nearest_one() {
        assert_eq!(
            error("adaptiv", &[]),
            "unknown policy 'adaptiv'; did you mean 'adaptive'?"
        );
        assert_eq!(error("zzzzzzzz", &[]), "unknown policy 'zzzzzzzz'");
        assert_eq!(
            error("mega", &[("promote_maped", 0.5)]),
            "policy 'mega' has no parameter 'promote_maped'; did you mean 'promote_mapped'?"
        );
    }

    #[test]
    fn a_value_outside_the_range_is_refused() {
        assert_eq!(
            error("mega", &[("promote_mapped", 1.5)]),
            "parameter 'promote_mapped' of policy 'mega' takes numbers from 0 to 1, not 1.5"
        );
        assert_eq!(
            error("mega", &[("scans", 2.5)]),
            "parameter 'scans' of policy 'mega' takes whole numbers from 1 to 32, not 2.5"
        );
        assert!(error("mega", &[("scans", f64::NAN)]).ends_with("not NaN"));
    }

    #[test]
    fn thresholds_that_would_do_and_undo_are_refused() {
        assert_eq!(
            error("mega", &[("demote_utilization", 0.75)]),
            "parameters of policy 'mega' contradict each other: 'demote_utilization' is 0.75 and must not be above 'promote_utilization', which is 0.5"
        );
    }
}
