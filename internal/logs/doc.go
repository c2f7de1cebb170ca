// Package logs is between the engine and the Logger of a client: no log call of the engine
// blocks ([Queue], queue.go), and failures of one kind share a line ([Failures], report.go).
// A new kind of failure is a field of [Report] and a row in its Init and Flush.
package logs
