package doctor

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/doctor"
)

// serverKind is what a server is among others.
type serverKind uint8

const (
	member     serverKind = iota // of a replica set
	router                       // of a sharded cluster
	standalone                   // of nothing
	notBegun                     // of a replica set without members yet
)

// kindOf is what hello says of it, and what follows the version in its name.
func kindOf(hello bson.Raw) (is serverKind, name string) {
	text := func(field string) string { v, _ := hello.Lookup(field).StringValueOK(); return v }
	begins, _ := hello.Lookup("isreplicaset").BooleanOK()
	switch {
	case text("msg") == "isdbgrid":
		return router, ", sharded (mongos)"
	case text("setName") != "":
		return member, fmt.Sprintf(" at %s (replica set %s)", text("me"), text("setName"))
	case begins:
		return notBegun, ", of a replica set that was not begun"
	}
	return standalone, ", standalone"
}

// onShards adds that a router cannot tell. More rights would not help.
func (e *Examination) onShards(ids ...string) {
	for _, id := range ids {
		before := len(e.report.Findings)
		e.add(id, doctor.Skipped, "a router does not know")
		if all := e.report.Findings; len(all) > before {
			all[before].Advice = "Run the doctor with the address of each shard."
		}
	}
}
