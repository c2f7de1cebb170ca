package conn_test

import (
	sqldriver "database/sql/driver"
	"math"
	"testing"

	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/sqltest"
)

// FuzzNumbers: a number that is out of range is an error, whatever its type.
func FuzzNumbers(f *testing.F) {
	for _, n := range []string{"", "\x02\xff\xff\xff\xff\xff\xff\xff\xff", "\x03\x0218", "\x01\x01"} {
		f.Add([]byte(n))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, v := range sqltest.Cells(data, 8) {
			found, err := conn.ScanNumbers(&sqltest.GivenRows{Rows: [][]sqldriver.Value{{v}}})
			if u, ok := v.(uint64); ok && u > math.MaxInt64 && err == nil {
				t.Errorf("%d was read as %v", u, found)
			}
		}
	})
}
