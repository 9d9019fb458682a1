//! Why a policy could not be built, of either kind, and the checks that find it out.

use crate::nearest;
use crate::parameters::{ParameterInfo, Parameters};

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
