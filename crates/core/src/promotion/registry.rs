//! The policies by name.

use super::info::PolicyInfo;
use super::{Policy, adaptive, base, hawkeye, ingens, mega, trident, trident_1g_only, trident_nc};
use crate::build_error::{BuildError, check_parameters};
use crate::nearest;
use crate::parameters::{Parameters, Values};

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
