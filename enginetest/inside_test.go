package enginetest

import (
	"reflect"
	"sync"
	"unsafe"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/grant"
)

// A few tests look at what no program sees, through the fields of the root's types.

// holdOf is what the database knows of the lease.
func holdOf(l *rowlock.Lease) driver.Hold {
	h := (*grant.Grant)(reflect.ValueOf(l).Elem().FieldByName("g").UnsafePointer()).Hold
	h.Token = l.Token()
	return h
}

// keysOf counts what the client keeps of keys: the entries, and those of them that are kept for a while only because of
// what they know.
func keysOf(c *rowlock.Client) (entries, idle, waiting, together int) {
	v := reflect.ValueOf(c).Elem().FieldByName("table").Elem()
	mu := (*sync.Mutex)(unsafe.Pointer(v.FieldByName("mu").UnsafeAddr()))
	mu.Lock()
	defer mu.Unlock()
	n := func(field string) int { return int(v.FieldByName(field).Int()) }
	return v.FieldByName("keys").Len(), n("idleKeys"), n("waiting"), n("together")
}
