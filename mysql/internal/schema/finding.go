package schema

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Kind is what a finding is about.
type Kind uint8

const (
	Missing Kind = iota // there is no such table
	Unfit               // it is not as the migration makes it, or not a table of rowlock's
	Engine              // it is kept by an engine that has no row locks
	Denied              // the user has no right to use it
	Refused             // the server says something else
)

// Finding is one thing that is wrong with a table. Each stops a Store whose statements need the table: it is
// the error of Check and of the first use. The doctor reports it.
type Finding struct {
	Kind Kind
	Says string // what is wrong, without what to do
	Mend string // the command or statement that mends it; empty: the caller knows, or nobody does
	err  error  // what Check says
}

func (f *Finding) Error() string { return f.err.Error() }
func (f *Finding) Unwrap() error { return f.err }

// migrate mends what is missing.
const migrate = "rowlock migrate --up"

// FindingOf is the one in an error, or the one that an answer of the server is; nil: it is neither.
func FindingOf(err error) *Finding {
	if f := (*Finding)(nil); errors.As(err, &f) {
		return f
	}
	kind := Refused
	switch conn.Number(err) {
	case 0:
		return nil
	case conn.ErNoTable:
		kind = Missing
	case conn.ErNoColumn:
		kind = Unfit
	case conn.ErDatabaseDenied, conn.ErTableDenied:
		kind = Denied
	}
	return &Finding{Kind: kind, Says: err.Error(), err: err}
}

func missing(table, advice string, err error) *Finding {
	return &Finding{Missing, "table " + table + " is missing", migrate, fmt.Errorf("%w: table %s is missing in this database: %s: %w", driver.ErrSchema, table, advice, err)}
}

// unfit is a finding about a table that the text names. No statement mends it.
func unfit(format string, args ...any) *Finding {
	err := fmt.Errorf("%w: "+format, append([]any{driver.ErrSchema}, args...)...)
	return &Finding{Unfit, err.Error(), migrate, err}
}

// misfit collects what is wrong with the columns and indexes of a table, with the clauses of the ALTER TABLE
// that mends it.
type misfit struct{ faults, mends []string }

func (m *misfit) add(mend, fault string, args ...any) {
	m.faults, m.mends = append(m.faults, fmt.Sprintf(fault, args...)), append(m.mends, mend)
}

func (m *misfit) finding(table string) *Finding {
	if len(m.faults) == 0 {
		return nil
	}
	says, mend := "table "+table+": "+strings.Join(m.faults, "; "), "ALTER TABLE "+table+" "+strings.Join(m.mends, ", ")
	return &Finding{Unfit, says, mend, fmt.Errorf("%w: %s; no migration repairs this: %s", driver.ErrSchema, says, mend)}
}
