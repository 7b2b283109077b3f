//! Classes of locks: the values of the label `class`.

use std::sync::{Arc, Mutex, PoisonError};

use metrics::SharedString;

/// The largest number of classes in a process. Classes that come after these are recorded as
/// `other`.
pub const MAX_CLASSES: usize = 16;

const OTHER: &str = "other";

/// The classes of this process, in the order of their first use.
static KNOWN: Mutex<Vec<Arc<str>>> = Mutex::new(Vec::new());

/// A class of locks: the class without a name, a class with a name, or `other`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Class(usize);

impl Class {
    /// The number of classes, including `other` and the class without a name.
    pub(super) const COUNT: usize = MAX_CLASSES + 2;

    /// The class with this name. An empty text is the class without a name.
    pub(crate) fn named(name: &str) -> Self {
        if name.is_empty() {
            return Self::default();
        }
        Self(number(&mut KNOWN.lock().unwrap_or_else(PoisonError::into_inner), name))
    }

    pub(super) const fn index(self) -> usize {
        self.0
    }

    /// The label's value; `None` if the series do not have the label.
    pub(super) fn label(self) -> Option<SharedString> {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let named = |index| known.get(index).cloned().map_or(OTHER.into(), SharedString::from);
        self.0.checked_sub(1).map(named)
    }
}

/// The number of a class. A new class gets a new number if there is room, and the number of `other`
/// if not.
fn number(known: &mut Vec<Arc<str>>, name: &str) -> usize {
    let index = known.iter().position(|known| **known == *name).unwrap_or(known.len());
    if index == known.len() && index < MAX_CLASSES && name != OTHER {
        known.push(name.into());
    }
    if index < known.len() { index + 1 } else { MAX_CLASSES + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_keeps_its_number_and_excess_classes_share_one() {
        let mut known = Vec::new();
        let numbers: Vec<_> = (0..20).map(|class| number(&mut known, &format!("class-{class}"))).collect();
        assert_eq!(numbers[..MAX_CLASSES], (1..=MAX_CLASSES).collect::<Vec<_>>());
        assert!(numbers[MAX_CLASSES..].iter().all(|&number| number == MAX_CLASSES + 1), "{numbers:?}");
        assert_eq!((number(&mut known, "class-3"), number(&mut known, "class-19")), (4, MAX_CLASSES + 1));
        assert_eq!(number(&mut Vec::new(), OTHER), MAX_CLASSES + 1, "`other` takes no room");
        assert_eq!((known.len(), Class::named("")), (MAX_CLASSES, Class::default()));
    }
}
