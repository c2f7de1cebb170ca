// Package getlock gives the clients that wait for a key their turn, by locks of the server
// that have a name (GET_LOCK). They wake and decide nothing.
package getlock
