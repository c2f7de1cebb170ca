package workload

import (
	"fmt"
	"slices"
	"time"
)

// Task is what a client process is to do.
type Task struct {
	Name    string            // in the history
	Folder  string            // where its history goes
	Spaces  []string          // "version", "unique" and "for-update", or "mongo"
	Address string            // of the server: a DSN, or a MongoDB URI
	Pool    string            // MySQL and MariaDB: the DSN of the program's own pool; empty: Address
	Through map[string]string // MongoDB: the proxy of each member, by the member's address
	Round   string            // the beginning of all keys
	Seed    uint64
	TTL     time.Duration
	Hot     int    // workers for each space that fight for the hot keys
	Light   int    // workers for each space with keys of their own (for-update: an eighth of them, mongo: twice as many)
	Modes   int    // workers for each space that want keys in several modes; half as many want groups, and as many keys in order
	Break   string // a deliberate bug in the store: see Bugs
	Program string `json:"-"` // that plays the client; empty: this one. It may be another build of it
}

// The strategies, which are the names of the spaces.
const (
	Version   = "version"
	Unique    = "unique"
	ForUpdate = "for-update"
	Mongo     = "mongo"
)

// hotKeys is how many keys of a space all clients fight for. The first half are always
// held briefly, the others for up to twice the TTL now and then.
const hotKeys = 4

// lightKeys is how many keys of a space each client has for itself.
const lightKeys = 200

// HotKeys are the keys of a round that all clients fight for, the same in each space.
// They have registers and ledgers.
func HotKeys(round string) (keys []string) {
	for i := range hotKeys {
		keys = append(keys, fmt.Sprintf("%s/hot%d", round, i))
	}
	return keys
}

// ModeKeys are the keys of a round that all clients want in several modes: the first by readers
// and exclusive holders, the second by slots and all others.
func ModeKeys(round string) []string { return []string{round + "/readers", round + "/slots"} }

// MostSlots is the largest n with which a slot is asked for.
const MostSlots = 4

// GroupKeys are the keys of a round of which all clients want several at once.
func GroupKeys(round string) (keys []string) {
	for i := range 3 {
		keys = append(keys, fmt.Sprintf("%s/group%d", round, i))
	}
	return keys
}

// LeadKey is the key of a round under which one client leads.
func LeadKey(round string) string { return round + "/lead" }

// SharedKeys are all keys of a round that all clients want: those with registers and
// ledgers, which are observed.
func SharedKeys(round string) []string {
	return slices.Concat(HotKeys(round), ModeKeys(round), GroupKeys(round), FairKeys(round), []string{LeadKey(round)})
}

// TxKeys are the keys that all clients lock in transactions of their own. Those of all
// spaces of a server are in one table.
func TxKeys(round, space string) (keys []string) {
	for i := range 2 {
		keys = append(keys, fmt.Sprintf("%s/%s/tx%d", round, space, i))
	}
	return keys
}

// KeptKey is the key of a client that it holds all the time.
func KeptKey(round, client string) string { return fmt.Sprintf("%s/%s/kept", round, client) }

// LightKeys are the keys of one client.
func LightKeys(round, client string) (keys []string) {
	for i := range lightKeys {
		keys = append(keys, fmt.Sprintf("%s/%s/%d", round, client, i))
	}
	return keys
}
