package logs

import "github.com/rowlock/rowlock/driver"

// Attrs are the attributes of a line about a key: the mode only where it is not Exclusive,
// then more.
func Attrs(key string, m driver.Mode, more ...any) []any {
	a := append(make([]any, 0, 4+len(more)), "key", key)
	if m != driver.Exclusive {
		a = append(a, "mode", m)
	}
	return append(a, more...)
}
