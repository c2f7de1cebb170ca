package mysqllock

import (
	"math"
	"strconv"
	"time"
)

// count is a number that a row shows.
type count struct {
	n    int64
	null bool
	off  bool // it is no int64: n is the nearest one, or 0
}

// Scan implements sql.Scanner. It never fails: the other columns and rows are good.
func (c *count) Scan(v any) error {
	*c = count{}
	switch v := v.(type) {
	case nil:
		c.null, c.off = true, true
	case int64:
		c.n = v
	case uint64:
		c.n, c.off = int64(min(v, math.MaxInt64)), v > math.MaxInt64
	case []byte:
		c.parse(string(v))
	case string:
		c.parse(v)
	default:
		c.off = true
	}
	return nil
}

func (c *count) parse(s string) {
	n, err := strconv.ParseInt(s, 10, 64) // out of range: the nearest
	c.n, c.off = n, err != nil
}

// micros is a duration of n microseconds, or the nearest there is.
func micros(n int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Microsecond)
	return time.Duration(min(max(n, -most), most)) * time.Microsecond
}
