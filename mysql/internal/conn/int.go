package conn

import (
	"math"
	"strconv"
	"time"
)

// Int is a number that a row shows.
type Int struct {
	N    int64
	Null bool
	Off  bool // it is no int64: n is the nearest one, or 0
}

// Scan implements sql.Scanner. It never fails: the other columns and rows are good.
func (c *Int) Scan(v any) error {
	*c = Int{}
	switch v := v.(type) {
	case nil:
		c.Null, c.Off = true, true
	case int64:
		c.N = v
	case uint64:
		c.N, c.Off = int64(min(v, math.MaxInt64)), v > math.MaxInt64
	case []byte:
		c.parse(string(v))
	case string:
		c.parse(v)
	default:
		c.Off = true
	}
	return nil
}

func (c *Int) parse(s string) {
	n, err := strconv.ParseInt(s, 10, 64) // out of range: the nearest
	c.N, c.Off = n, err != nil
}

// Micros is a duration of n microseconds, or the nearest there is.
func Micros(n int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Microsecond)
	return time.Duration(min(max(n, -most), most)) * time.Microsecond
}
