package row

import "sync"

// linedKeys are the keys whose rows were seen with a line when they were read last. A release of one begins with the statement
// that passes the key on. It decides nothing: where it is wrong, the release costs a statement more.
type linedKeys struct {
	mu   sync.Mutex
	keys map[string]bool
}

// mostLined is how many are kept; more, and all are forgotten.
const mostLined = 10000

// has reports whether the key had a line.
func (l *linedKeys) has(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keys[key]
}

// note notes whether the key has one.
func (l *linedKeys) note(key string, has bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !has:
		delete(l.keys, key)
		return
	case l.keys == nil || len(l.keys) >= mostLined:
		l.keys = make(map[string]bool)
	}
	l.keys[key] = true
}

// SeenLine reports whether the key's row had a line when it was read last.
func (l *Table) SeenLine(key string) bool { return l.lines.has(key) }
