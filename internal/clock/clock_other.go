//go:build !linux

package clock

import "time"

// Now is the time since the program was started.
func Now() time.Duration { return sinceStart() }
