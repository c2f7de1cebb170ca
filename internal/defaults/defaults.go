// Package defaults has what applies where a program says nothing, as far as several parts must know it.
package defaults

import "time"

// TTL is that of a lock.
const TTL = 30 * time.Second
