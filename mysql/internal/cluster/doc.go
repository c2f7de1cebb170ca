// Package cluster finds, among several servers, the one that takes writes, and says what kind of cluster a server
// belongs to.
//
// [Look] asks one server what it says of itself and of the others. [Choose] makes one answer of all of them, without
// any I/O. [Finder] asks whenever a connection is made and the last answer is not of just now, goes on asking while no
// server takes writes, and closes the connections to the others when the answer changes.
//
// A server may be wrong about itself: one that was frozen, or cut off, while another was made the primary believes for
// a moment, or for good, that it still is. So where two say that they take writes, a group is asked what most of its
// members say, a semi-synchronous primary whether replicas acknowledge, and of nodes of Galera, all of which do take
// writes, the first in the caller's order is taken.
package cluster
