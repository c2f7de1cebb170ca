package ui

import (
	"fmt"
	"time"

	"github.com/rowlock/rowlock/internal/words"
)

// printable is a key or an owner as the page shows it.
func printable(s string) string { return words.Printable(s, "–") }

// span is a duration in words. The script has the same function.
func span(d time.Duration) string {
	s := int64(max(d, 0) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%d h %d min", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%d d %d h", s/86400, s/3600%24)
	}
}
