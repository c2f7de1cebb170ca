// Package getlock wakes the first of the line of a key, by locks of the server that have a name
// (GET_LOCK). They decide nothing.
package getlock
