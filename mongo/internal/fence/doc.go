// Package fence keeps the fences of guarded keys, and the sessions that they name.
//
// A guarded key has a document beside its lease: {_id: key, token, lsid, with, n}. A guarded
// transaction writes it, renewals never do. An acquire of such a key raises its token
// before it is granted, which waits for the transactions that have written it and makes all
// later ones of an older token match nothing. lsid is the session in which InTx and Once
// run the transactions of that token, with are those of other leases that were guarded in one
// transaction with it; n only makes a guard a write.
//
// That a key is guarded is a flag in its lease document, so that other keys pay nothing. It
// is gone if somebody deletes the document, or brings an old one back, and the fence is
// still there. Therefore a document without a token is fresh, and an acquire that takes a
// fresh one looks for a fence. It stays fresh until a lease on it is released: the program
// that created the document may have died before it looked.
//
// The package raises and reads fences, asks whether an open transaction has written one,
// and ends the sessions of older holders. It knows nothing of leases but their tokens, and
// decides no acquire: that an unraised fence means pinned is said by its caller.
package fence
