//! Sets of nodes, by their numbers.

/// A set of nodes, by number. A quorum has at most 64 nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeSet(u64);

impl NodeSet {
    /// One node.
    #[must_use]
    pub const fn of(node: usize) -> Self {
        Self(1 << node)
    }

    /// The nodes 0 to `count - 1`.
    #[must_use]
    pub const fn first(count: u32) -> Self {
        if count >= 64 { Self(u64::MAX) } else { Self((1 << count) - 1) }
    }

    /// Adds a node.
    pub const fn insert(&mut self, node: usize) {
        self.0 |= 1 << node;
    }

    /// Removes a node.
    pub const fn remove(&mut self, node: usize) {
        self.0 &= !(1 << node);
    }

    /// Whether a node is in the set.
    #[must_use]
    pub const fn contains(self, node: usize) -> bool {
        self.0 & (1 << node) != 0
    }

    /// How many nodes are in the set.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// The nodes in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The nodes that are in at least one of the sets.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The nodes of this set that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The nodes in the set, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let node = left.trailing_zeros() as usize;
            (left != 0).then(|| {
                left &= left - 1;
                node
            })
        })
    }
}

impl FromIterator<usize> for NodeSet {
    fn from_iter<I: IntoIterator<Item = usize>>(nodes: I) -> Self {
        let mut set = Self::default();
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_nodes_knows_its_nodes() {
        let mut set = NodeSet::of(5);
        set.insert(63);
        set.insert(0);
        assert!(set.contains(0) && set.contains(5) && set.contains(63) && !set.contains(1) && !set.is_empty());
        assert_eq!((set.len(), set.and(NodeSet::of(5)), set.and(NodeSet::of(1))), (3, NodeSet::of(5), NodeSet(0)));
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 5, 63]);
        set.remove(5);
        set.remove(5);
        assert!(set.len() == 2 && !set.contains(5) && NodeSet::default().is_empty());
        assert_eq!(set.or(NodeSet::of(7)).without(NodeSet::of(0)).iter().collect::<Vec<_>>(), [7, 63]);
    }

    #[test]
    fn the_first_nodes_are_counted_from_zero() {
        assert_eq!((NodeSet::first(0).len(), NodeSet::first(3).len(), NodeSet::first(64).len()), (0, 3, 64));
        assert!(NodeSet::first(3).contains(2) && !NodeSet::first(3).contains(3));
    }
}
