// Package document has the form of a key's document in the lease collection: what a
// reply says of it ([State]), the expressions over it that decide by the server's clock
// whether it is free, and the statements that take, renew and end a hold.
//
// It knows the names and types of the fields, what makes a document corrupt, and how tokens
// follow the clock of the replica set.
//
// A field: Fields, grant, joined, toFirst and toRun (each writes the whole document: what it does not name
// is gone), Parse; phaseentry.go and lineend.go where the end of a hold must clear it.
//
// Readers and slots are entries in the key's document, in a phase of it: phase.go how one begins
// and who comes in (chooseSlot: which slot), phaseentry.go renewals and ends, phasesummary.go what a reply says of them.
//
// Those who wait stand in the line of the document: line.go its form, linetake.go and lineend.go the
// statements that know of it (lineexclusive.go: in short), pass.go how they hand the key to the first, lineview.go what replies say.
//
// It sends nothing: it knows no client, session, time limit or error of a server, and
// of the other collections only that their documents have a key or a hold as _id too.
package document
