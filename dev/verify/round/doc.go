// Package round runs rounds: for a time, clients use locks on one server while faults
// happen to all of it; then the server comes to rest, and package check judges what
// was recorded. Everything in a round is drawn from its seed: which client does what, which
// faults come when. What the scheduler of the machine does is not, so a round that is
// run again is alike, not the same.
package round
