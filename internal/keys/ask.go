package keys

import (
	"context"

	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/logs"
)

// Ask is what a caller asks for: all of its options that what waits for keys has to know, told once.
type Ask struct {
	Key string
	grant.Terms
	Fair     bool
	StandsBy bool // by Lead or Every
}

// ID is the entry in which the caller waits.
func (a *Ask) ID() ID { return ID{a.Key, a.Mode} }

// Caller is one that wants a key.
type Caller struct {
	Ctx context.Context // only for what is logged
	Ask
	Counts *Counts    // nil: nobody wants to know
	Loop   *logs.Loop // that the caller is, which is told when the database answers; nil: it is none
}

// Counts are what observers are told of a wait. They belong to what waits for keys until the caller is answered.
type Counts struct {
	Ahead    int // callers of this client that waited for the key when this one came
	Attempts int
}
