// Package enginetest has the tests of a Client: what a program sees of the engine, over the memory
// store, in a synctest bubble whose time is fake. A faultStore delays, loses and refuses what is
// sent. What every store has to do is in locktest; the state machine of a key and that of a grant
// have tests beside them, in internal/key and internal/grant.
package enginetest
