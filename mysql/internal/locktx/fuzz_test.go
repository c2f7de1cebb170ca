package locktx

import (
	"testing"

	"github.com/rowlock/rowlock/mysql/internal/sqltest"
)

// FuzzStatements: see sqltest.Fuzz.
func FuzzStatements(f *testing.F) {
	tx := &txLock{Locker: New(nil, "`rowlock_tx`", nil), there: "`app`.`rowlock_tx`"}
	sqltest.Fuzz(f, func(v sqltest.Values) (s sqltest.Statements) {
		s.Add(tx.insert([]string{v.Key, v.Other}), v.Key, v.Other)
		s.Add(tx.statement([]string{v.Key, v.Other}, " NOWAIT"), v.Key, v.Other)
		s.Add(tx.statement([]string{v.Key}, ""), v.Key)
		return s
	})
}
