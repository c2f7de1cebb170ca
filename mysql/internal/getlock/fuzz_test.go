package getlock

import (
	"testing"

	"github.com/rowlock/rowlock/mysql/internal/sqltest"
)

// FuzzNamedLock: see sqltest.Fuzz.
func FuzzNamedLock(f *testing.F) {
	sqltest.Fuzz(f, func(v sqltest.Values) (s sqltest.Statements) {
		s.Add(WaitStatement("`t`", v.Key), v.Key)
		return s
	})
}
