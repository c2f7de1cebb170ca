// Package document has the form of a key's document in the lease collection: what a
// reply says of it ([State]), the expressions over it that decide by the server's clock
// whether it is free, and the statements that take, renew and end a hold.
//
// It knows the names and types of the fields, the hint of a client that waits, what
// makes a document corrupt, and how tokens follow the clock of the replica set.
//
// A field: Fields, grant and joined (each writes the whole document: what it does not name is
// gone), Parse; entry.go where the end of a hold must clear it; watch.go of package mongolock,
// which asks the change stream for some.
//
// Readers and slots are entries in the key's document, in a phase of it: phase.go how one begins
// and who comes in (chooseSlot: which slot), entry.go renewals and ends, gate.go how an exclusive
// attempt keeps new ones out, summary.go what a reply says of them.
//
// It sends nothing: it knows no client, session, time limit or error of a server, and
// of the other collections only that their documents have a key or a hold as _id too.
package document
