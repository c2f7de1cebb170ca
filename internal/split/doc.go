// Package split sends a batch of keys as one command, and as several where one key stops it.
//
// One document that a foreign transaction has written stops the whole command it is in:
// those behind it are not reached, in whatever form the command is sent (ordered:false
// steps over errors, not over a wait). So a command has little time ([Limit]). What one
// that was stopped has done is read at the majority; where it stood is the first document,
// in the order of the index, that it has not done. That one goes out singly, and beside it
// all others once more in one command. Only where they are stopped again (more than one
// document is blocked, or the server is slow) the batch is split into smaller and smaller
// parts, down to single keys.
//
// MySQL says itself which rows keep a statement waiting. Its stores need only halves: of a statement that is too large, or that a row
// stops which nobody can read ([Halves]).
//
// It knows the order of the keys and how many commands go out at a time. What a command
// is, what stops it and how its progress is read, the caller says: it knows no statement,
// no session and no error of a server.
package split
