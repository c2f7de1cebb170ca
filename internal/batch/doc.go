// Package batch sends the calls of many callers to the store in shared statements, one
// batch after the other: while batches are in flight the next one fills. The call of a lone
// caller leaves at once.
//
// batch.go has the batcher: how many batches are in flight, and in which order calls go.
// send.go has one batch: which calls go together, and their answers. delay.go is the
// group-commit delay: how long a batch waits for the calls of callers that come together. The
// bounds are set where a batcher is made: acquires in table.go of package keys, renewals
// and releases in internal/grant.
package batch
