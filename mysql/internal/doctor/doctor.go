// Package doctor looks for what is wrong with a database as a place for locks: doctor.go is one run of it, the other files
// have the findings, in the order of docs/doctor.md's table.
package doctor

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"strings"
	"time"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/words"
	"github.com/rowlock/rowlock/mysql/internal/cluster"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
	"github.com/rowlock/rowlock/mysql/internal/schema"
)

// Subject is what is examined.
type Subject struct {
	Store       driver.Store
	DB          *conn.DB
	Strategy    string
	Layout      []row.Layout        // all tables of the statements
	Defined     []schema.Definition // of all of these, and of the tables of MarkRun and LockTx
	Prefix      string
	Connections int    // of one Store, at most
	Sessions    string // the table of the sessions of SelectForUpdate; empty with another strategy

	// Describe says what is promised on the cluster, and which of its settings are risks.
	Describe func(v cluster.View, replicas int) (kind, promised string, risks []Risk)
}

// Risk is a setting of a cluster under which less holds, or (doctor.Info) on which something rests.
type Risk struct {
	ID       string // of the finding
	Severity doctor.Severity
	Seen     string // what is set
	Means    string // what follows, and what to set instead
	Variable string
}

// New is a run that has not begun.
func New(s Subject, o doctor.Options, r *doctor.Report) *Examination {
	return &Examination{Subject: s, o: o, report: r, failover: o.Failover}
}

// Examination is one run of Doctor. Tests take single steps of it.
type Examination struct {
	Subject
	o      doctor.Options
	report *doctor.Report

	sessions []*plainSession // the first is always there
	mariaDB  bool
	writable bool
	settings map[string]string // global variables, by their names in small letters
	status   map[string]string // the same of SHOW STATUS
	user     string            // as GRANT takes it
	database string
	fit      bool // the tables can be used
	seesAll  bool // sessions of other users
	replicas int  // that are seen
	failover time.Duration
}

// statusNames are what is read of SHOW STATUS.
var statusNames = []string{"Connection_errors_max_connections", "Innodb_redo_log_enabled", "Threads_connected"}

// Run adds what it finds to the report.
func (e *Examination) Run(ctx context.Context) error {
	defer e.End()
	err := e.run(ctx)
	e.report.Sort()
	return err
}

func (e *Examination) run(ctx context.Context) error {
	first, err := e.Begin(ctx)
	if err != nil {
		return err
	}
	e.report.Strategy = e.Strategy
	e.server()
	if err := e.takesWrites(ctx); err != nil {
		return err
	}
	if serves, err := e.cluster(ctx); err != nil || !serves {
		return err
	}
	if err := e.read(ctx, first); err != nil {
		return err
	}
	e.durability()
	e.limits()
	for _, step := range []func(context.Context) error{
		e.connections, e.quotas,
		e.tables, e.attached, e.events, e.privileges, e.otherTables, e.mayCreate, e.deadRows,
		e.transactions,
		e.clock, e.latency,
		e.RefusedConnections,
		e.Proxies, // GET_LOCK last: a proxy may treat a session that has used it differently
		e.killing, e.namedLocks,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Begin opens the first session, and reads the server's variables.
func (e *Examination) Begin(ctx context.Context) (first *plainSession, err error) {
	if first, err = e.Open(ctx); err != nil {
		return nil, err
	}
	e.settings, err = first.pairs(ctx, "SHOW GLOBAL VARIABLES")
	e.mariaDB = schema.IsMariaDB(e.settings["version"])
	return first, err
}

// read reads what a server says that can serve. It needs no privilege.
func (e *Examination) read(ctx context.Context, on *plainSession) (err error) {
	if e.status, err = on.status(ctx); err != nil {
		return err
	}
	rows, err := on.ask(ctx, "SELECT CURRENT_USER(), DATABASE()")
	if err != nil {
		return err
	}
	user := rows[0][0]
	at := strings.LastIndex(user, "@")
	e.user, e.database = "'"+user[:max(at, 0)]+"'@'"+user[at+1:]+"'", rows[0][1]
	return nil
}

// status reads what is needed of the server's.
func (on *plainSession) status(ctx context.Context) (map[string]string, error) {
	return on.pairs(ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('"+strings.Join(statusNames, "','")+"')")
}

// add adds a finding. What stands for {SET} and so on in the table's texts is added to with.
func (e *Examination) add(id string, s doctor.Severity, value string, with ...string) {
	set := "SET PERSIST"
	if e.mariaDB {
		set = "SET GLOBAL"
	}
	e.report.Add(id, s, value, append(with, "SET", set, "user", e.user, "database", e.database)...)
}

// refused makes an answer of the server to a question a finding: it was skipped. Any other error comes back.
func (e *Examination) refused(id string, err error) error {
	if conn.Number(err) == 0 {
		return err
	}
	e.add(id, doctor.Skipped, err.Error())
	return nil
}

// own are the names of the tables that the Store uses, as values of a list in SQL.
func (e *Examination) own() string {
	var b strings.Builder
	for i, t := range e.Layout {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("'" + strings.Trim(t.Table, "`") + "'")
	}
	return b.String()
}

// plainSession is a connection of a Doctor's own. Nothing is set on it but by seeAll, so that a proxy treats it as it does a program's.
type plainSession struct {
	*sql.Conn
	db *conn.DB
}

// Open opens one more.
func (e *Examination) Open(ctx context.Context) (*plainSession, error) {
	sc, err := e.DB.Plain(ctx)
	if err != nil {
		return nil, err
	}
	on := &plainSession{sc, e.DB}
	e.sessions = append(e.sessions, on)
	return on, on.seeAll(ctx)
}

// seeAll lifts limits of the session on what is read, where there are any: its answers would be wrong, or refused. Where there
// are none nothing is set, and what is asked has no @.
func (on *plainSession) seeAll(ctx context.Context) error {
	for _, limit := range []struct{ name, none string }{{"sql_big_selects", "1"}, {"sql_select_limit", "18446744073709551615"}} {
		rows, err := on.ask(ctx, "SHOW SESSION VARIABLES LIKE '"+limit.name+"'")
		switch {
		case err != nil && conn.Number(err) == 0:
			return err
		case err == nil && len(rows) == 1 && (rows[0][1] == limit.none || rows[0][1] == "ON"):
			continue
		}
		if err := on.exec(ctx, "SET SESSION "+limit.name+"="+limit.none); err != nil {
			return err
		}
	}
	return nil
}

// several makes it n sessions, or fewer, but at least one, where a program's pool has no more to give.
func (e *Examination) several(ctx context.Context, n int) ([]*plainSession, error) {
	for len(e.sessions) < n {
		waiting, cancel := context.WithTimeout(ctx, conn.OpenWait)
		_, err := e.Open(waiting)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return e.sessions, nil
		}
	}
	return e.sessions[:n], nil
}

// End closes all sessions for good: a program's pool gets none of them back.
func (e *Examination) End() {
	for _, on := range e.sessions {
		_ = on.Raw(func(any) error { return sqldriver.ErrBadConn })
		_ = on.Close()
	}
}

// ask sends a question and returns the answer as text; NULL is empty.
func (on *plainSession) ask(ctx context.Context, text string) (found [][]string, err error) {
	on.db.Statements.Add(1)
	rows, err := on.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		row := make([]string, len(columns))
		for i, v := range values {
			row[i] = v.String
		}
		found = append(found, row)
	}
	return found, rows.Err()
}

// pairs asks for names and values. Names come back in small letters.
func (on *plainSession) pairs(ctx context.Context, text string) (map[string]string, error) {
	rows, err := on.ask(ctx, text)
	if err != nil {
		return nil, err
	}
	found := make(map[string]string, len(rows))
	for _, r := range rows {
		found[strings.ToLower(r[0])] = r[1]
	}
	return found, nil
}

// exec sends a statement that has no rows.
func (on *plainSession) exec(ctx context.Context, text string) error {
	on.db.Statements.Add(1)
	_, err := on.ExecContext(ctx, text)
	return err
}

// count is a number with its noun.
func count(n int, noun string) string {
	return words.Count(n, noun, noun+"s")
}
